-- Keeps a message from being taken for one of a dead consumer, if it is still this delivery's.
-- KEYS: where the message is. ARGV: the group, the consumer, the ID, how often it was delivered.
-- A claim of a message that the stream does not have would remove it from those of the group,
-- and then nobody could tell that it was deleted.
local group, consumer, id, count = unpack(ARGV)
local pending = redis.call('XPENDING', KEYS[1], group, id, id, 1)[1]
if pending and pending[2] == consumer and pending[4] == tonumber(count) and #redis.call('XRANGE', KEYS[1], id, id) > 0 then
	redis.call('XCLAIM', KEYS[1], group, consumer, 0, id, 'JUSTID')
end
return 1
