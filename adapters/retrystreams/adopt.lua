-- Makes due what nobody has and nobody waits for, since its group or its consumer was removed.
-- KEYS: the retry stream, what is due. ARGV: the group, and the ID after which to look.
-- Returns the ID after which to look next, or false at the end.
local group, from = unpack(ARGV)
if redis.call('XLEN', KEYS[1]) <= redis.call('ZCARD', KEYS[2]) + redis.call('XPENDING', KEYS[1], group)[1] then
	return false
end
local time = redis.call('TIME')
local last = false
for _, copy in ipairs(redis.call('XRANGE', KEYS[1], '(' .. from, '+', 'COUNT', 100)) do
	last = copy[1]
	if not redis.call('ZSCORE', KEYS[2], last) and #redis.call('XPENDING', KEYS[1], group, last, last, 1) == 0 then
		redis.call('ZADD', KEYS[2], time[1] * 1000, last)
	end
end
return last
