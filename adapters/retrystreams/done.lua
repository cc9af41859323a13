-- Removes a message that has succeeded. KEYS: where it is, the retry stream. ARGV: the group,
-- the ID.
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
if KEYS[1] == KEYS[2] then
	redis.call('XDEL', KEYS[1], ARGV[2])
end
return 1
