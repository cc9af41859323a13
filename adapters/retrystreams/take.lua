-- Delivers one message: one that is due, or one that a dead consumer has left, or a new one.
-- KEYS: the stream, its retry stream, what is due. ARGV: the group, the consumer, after how
-- many milliseconds a consumer is dead, and whether to look for that.
-- Returns where the message is, its ID, how often it was delivered, and its fields; or in how
-- many milliseconds the next message is due.
local group, consumer, idle, look = unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local id = redis.call('ZRANGE', KEYS[3], '-inf', now, 'BYSCORE', 'LIMIT', 0, 1)[1]
if id then
	redis.call('ZREM', KEYS[3], id)
	local claimed = redis.call('XCLAIM', KEYS[2], group, consumer, 0, id, 'RETRYCOUNT', 1, 'FORCE')[1]
	return {KEYS[2], id, 1, claimed and claimed[2] or {}}
end
for _, key in ipairs(look == '1' and {KEYS[2], KEYS[1]} or {}) do
	-- This is XAUTOCLAIM, which does not tell how often a message was delivered.
	local left = redis.call('XPENDING', key, group, 'IDLE', idle, '-', '+', 1)[1]
	if left then
		local claimed = redis.call('XCLAIM', key, group, consumer, idle, left[1])[1]
		return {key, left[1], left[4] + 1, claimed and claimed[2] or {}}
	end
end
local new = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', KEYS[1], '>')
if new then
	local message = new[1][2][1]
	return {KEYS[1], message[1], 1, message[2]}
end
local due = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
return due and due - now or -1
