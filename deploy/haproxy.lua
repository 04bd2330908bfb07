-- Where a stream that broke off goes on: at the daemon with the fewest requests of those whose /health has the
-- fingerprint that the request names (if_fingerprint) at this moment. Nothing is remembered, so a reload, a restart or
-- another fleet is seen by the next request. None has it: the request goes where any other would, and gets its 409.
local seconds = 1

local function candidates()
    local found = {}
    for name, server in pairs(core.backends["noised"].servers) do
        local stats = server:get_stats()
        if stats.status:find("^UP") then
            found[#found + 1] = { name = name, address = server:get_addr(), running = stats.scur }
        end
    end
    table.sort(found, function(a, b) return a.running < b.running end)
    return found
end

local function has(address, fingerprint)
    local answer = core.httpclient():get({ url = "http://" .. address .. "/health",
                                           headers = { host = { "localhost" } }, timeout = 1000 * seconds })
    return answer.status == 200 and answer.body:find('fingerprint":"' .. fingerprint .. '"', 1, true) ~= nil
end

core.register_action("find_fingerprint", { "http-req" }, function(txn)
    local fingerprint = txn:get_var("txn.fingerprint")
    for _, server in ipairs(candidates()) do
        if has(server.address, fingerprint) then
            txn:set_var("txn.server", server.name)
            return
        end
    end
end)
