-- Moves a message, if it is still this delivery's: to the retry stream, until it is due, or to
-- the dead letters. KEYS: where it is, the retry stream, where it goes, what is due. ARGV: the
-- group, the consumer, the ID, how often it was delivered, the delay in milliseconds or -1, and
-- fields that the copy has in place of those of the message that are ours.
-- Returns 0 if another delivery has gone on, and -1 if the stream does not have the message.
local group, consumer, id, count, delay = unpack(ARGV)
local pending = redis.call('XPENDING', KEYS[1], group, id, id, 1)[1]
if not pending or pending[2] ~= consumer or pending[4] ~= tonumber(count) then
	return 0
end
local message = redis.call('XRANGE', KEYS[1], id, id)[1]
if not message then
	redis.call('XACK', KEYS[1], group, id)
	return -1
end
local ours = {['retry-state'] = true, ['retry-lost'] = true, ['retry-id'] = true, ['retry-error'] = true}
local copy, fields = {unpack(ARGV, 6)}, message[2]
for i = 1, #fields, 2 do
	if not ours[fields[i]] then
		copy[#copy + 1], copy[#copy + 2] = fields[i], fields[i + 1]
	end
end
local to = redis.call('XADD', KEYS[3], '*', unpack(copy))
if tonumber(delay) >= 0 then
	local time = redis.call('TIME')
	local waits = redis.pcall('ZADD', KEYS[4], time[1] * 1000 + math.ceil(time[2] / 1000) + delay, to)
	if type(waits) == 'table' and waits.err then -- a copy that nobody waits for is one too many
		redis.call('XDEL', KEYS[3], to)
		return waits
	end
end
redis.call('XACK', KEYS[1], group, id)
if KEYS[1] == KEYS[2] then
	redis.call('XDEL', KEYS[1], id)
end
return 1
