-- Delivers one message: one that is due, one that a dead consumer has left, or a new one. These
-- take turns, so that none of them keeps the others waiting for ever.
-- KEYS: the stream, its retry stream, what is due. ARGV: the group, the consumer, after how
-- many milliseconds a consumer is dead, whether to look for that, and whose turn it is, from 0.
-- Returns where the message is, its ID, how often it was delivered, its fields, and whose turn
-- is next; or in how many milliseconds the next message is due.
local group, consumer, idle, look, turn = unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- A script is not rolled back: what is due stays so until it is claimed.
local function due()
	local id = redis.call('ZRANGE', KEYS[3], '-inf', now, 'BYSCORE', 'LIMIT', 0, 1)[1]
	if id then
		local claimed = redis.call('XCLAIM', KEYS[2], group, consumer, 0, id, 'RETRYCOUNT', 1, 'FORCE')[1]
		redis.call('ZREM', KEYS[3], id)
		return {KEYS[2], id, 1, claimed and claimed[2] or {}}
	end
end

local function left()
	for _, key in ipairs(look == '1' and {KEYS[2], KEYS[1]} or {}) do
		-- This is XAUTOCLAIM, which does not tell how often a message was delivered.
		local pending = redis.call('XPENDING', key, group, 'IDLE', idle, '-', '+', 1)[1]
		if pending then
			local claimed = redis.call('XCLAIM', key, group, consumer, idle, pending[1])[1]
			return {key, pending[1], pending[4] + 1, claimed and claimed[2] or {}}
		end
	end
end

local function new()
	local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', KEYS[1], '>')
	if read then
		local message = read[1][2][1]
		return {KEYS[1], message[1], 1, message[2]}
	end
end

local sources = {due, left, new}
for i = tonumber(turn), turn + 2 do
	local message = sources[i % 3 + 1]()
	if message then
		message[5] = (i + 1) % 3
		return message
	end
end
local next = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
return next and next - now or -1
