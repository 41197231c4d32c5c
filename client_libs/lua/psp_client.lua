-- SPDX-License-Identifier: PostgreSQL
-- Transactions on psp from sysbench: the thesis's begin and commit (section 3.4.3), the same in views and native mode.
--
--    local psp = require("psp_client")
--    local client = psp.connect(sysbench.sql.driver():connect())
--    client:begin()
--    client.connection:query("UPDATE ...")
--    client:commit()
--
-- Errors are thrown as tables {sql_state, sql_errmsg}, as sysbench throws those of SQL (which needs
-- sysbench.hooks.sql_error_ignorable to return true). One thread uses a client.
local messages = require("psp_messages")
local socket = require("psp_socket")

local psp = {}
local client = {}
client.__index = client

-- Nothing has happened: the transaction may be run again as it is.
psp.RETRYABLE = {["40001"] = true, ["40P01"] = true}
-- Failures that say nothing of the transaction's end: the request is sent again.
local ASK_AGAIN = {["08007"] = true, ["57P03"] = true, ["25001"] = true}
local DEFAULTS = {isolation = "repeatable read", retry_interval_ms = 2000, timeout_ms = 60000, attempts_max = 100,
                  backoff_ms_max = 250}

local function fail(sql_state, message)
   error({sql_state = sql_state, sql_errmsg = message}, 0)
end

local function value_of(connection, query)
   local rs = connection:query(query)
   local row = rs.nrows > 0 and rs:fetch_row()
   return row and row[1] or nil
end

-- Finds out the mode. options: isolation, retry_interval_ms, timeout_ms, attempts_max, backoff_ms_max.
function psp.connect(connection, options)
   local self = setmetatable({connection = connection, requests = {}, replies = {}, done = {}, next_id = 1}, client)
   self.options = setmetatable(options or {}, {__index = DEFAULTS})
   local views = value_of(connection, "SELECT pg_catalog.to_regprocedure('psp.client_endpoint()') IS NOT NULL")
   self.mode = (views == "t" or views == "1") and "views" or "native"
   if self.mode == "views" then
      local endpoint = value_of(connection, "SELECT psp.client_endpoint()")
      assert(endpoint, "psp: the semi-primary's daemon has never run")
      self.socket = socket.connect(endpoint)
   end
   return self
end

function client:close()
   if self.socket then
      self.socket:close()
      self.socket = nil
   end
end

-- Returns the transaction's id; in native mode, and if it is read_only, a number that is this client's only.
-- read_only: it cannot write (25006), and costs no commit request.
function client:begin(read_only)
   self:refuse_second()
   self.by_request = self.mode == "views" and not read_only  -- else PostgreSQL's COMMIT is all
   local begin = "BEGIN ISOLATION LEVEL " .. self.options.isolation:upper() .. (read_only and " READ ONLY" or "")
   if self.by_request then begin = begin .. "; SELECT psp.begin()" end
   local ok, found = pcall(self.by_request and value_of or self.connection.query, self.connection, begin)
   if not ok then
      pcall(self.connection.query, self.connection, "ROLLBACK")  -- BEGIN may have come before the error
      error(found, 0)
   end
   if self.by_request then
      self.open = found
   else
      self.open, self.next_id = self.next_id, self.next_id + 1
   end
   return self.open
end

function client:refuse_second()
   assert(not self.open, "psp: a transaction is open")
end

-- Numbers are ids of this client's, which nobody else knows.
function client:refuse_own_id(tx_id)
   assert(self.mode == "views", "psp: in native mode SELECT psp.outcome(id) tells")
   assert(type(tx_id) == "string", "psp: of a read-only transaction nobody keeps the outcome")
end

-- Rolls back; nothing is left. Without an open transaction it does nothing.
function client:abort()
   if self.open then
      self.open = nil
      self.connection:query("ROLLBACK")
   end
end

-- Ends the open transaction's SQL and sends its commit request; the connection is free. In native mode the COMMIT is over
-- when this returns, or throws. (sysbench does not tell a COMMIT that rolled back: do not commit after an error.)
function client:commit_async()
   local tx_id = assert(self.open, "psp: no transaction is open")
   self.open = nil
   self.connection:query("COMMIT")
   if not self.by_request then
      self.done[tx_id] = {status = "committed"}
   else
      self:ask(messages.COMMIT, tx_id)
   end
   return tx_id
end

-- Waits for the outcome of a commit_async: a table with status "committed" and global_t, or throws.
function client:get(tx_id)
   local reply = self.done[tx_id] or self:wait(messages.COMMIT, tx_id)
   self.done[tx_id] = nil
   if reply.status ~= "committed" then
      fail(reply.sqlstate or "40000", reply.message or "psp: the transaction is aborted")
   end
   return reply
end

-- Commits the open transaction. With the id of a transaction whose outcome is unknown (08007): asks again; views mode only.
function client:commit(tx_id)
   if tx_id and tx_id ~= self.open then
      self:refuse_own_id(tx_id)
      self:ask(messages.COMMIT, tx_id)
      return self:get(tx_id)
   end
   return self:get(self:commit_async())
end

-- The status of a transaction (running, waiting, pending, committed, aborted), without asking for its commit; views mode only.
function client:outcome(tx_id)
   self:refuse_own_id(tx_id)
   self:ask(messages.OUTCOME, tx_id)
   local reply = self:wait(messages.OUTCOME, tx_id)
   if reply.status == "failed" then fail(reply.sqlstate, reply.message) end
   return reply.status
end

-- Runs work(connection) in a transaction and commits it; after a serialization failure all of it again. Within a
-- transaction, such as another run's, it throws and leaves that one as it is. read_only: as begin's.
function client:run(work, read_only)
   self:refuse_second()
   local failures = 0
   while true do
      local ok, result = pcall(function()
         self:begin(read_only)
         local value = work(self.connection)
         self:commit()
         return value
      end)
      if ok then return result end
      pcall(self.abort, self)
      self.open = nil
      failures = failures + 1
      if type(result) ~= "table" or not psp.RETRYABLE[result.sql_state] or failures >= self.options.attempts_max then
         error(result, 0)
      end
      self:pause(failures)
   end
end

-- Exponential, with jitter, bounded.
function client:pause(failures)
   local most_ms = math.min(self.options.backoff_ms_max, 2 ^ math.min(failures, 20))
   socket.sleep(math.random() * most_ms)
end

-- ---- requests ----------------------------------------------------------------------------------

local function key_of(kind, tx_id)
   return kind .. " " .. tx_id
end

function client:ask(kind, tx_id)
   local request = {id = self.next_id, key = key_of(kind, tx_id), data = messages.request(self.next_id, kind, tx_id)}
   self.next_id = self.next_id + 1
   self.requests[request.id] = request
   self:send(request)
end

function client:send(request)
   request.send_at_ms = socket.now_ms() + self.options.retry_interval_ms
   self.socket:send(request.data)
end

function client:receive(timeout_ms)
   local data = self.socket:receive(timeout_ms)
   local reply = data and messages.read_reply(data)
   local request = reply and self.requests[reply.request_id]
   if request and not (reply.status == "failed" and ASK_AGAIN[reply.sqlstate]) then
      self.requests[request.id] = nil
      self.replies[request.key] = reply
   end
end

function client:give_up(key)
   for id, request in pairs(self.requests) do
      if request.key == key then self.requests[id] = nil end
   end
end

-- The reply to a request of this kind about the transaction; requests without one are sent again meanwhile.
function client:wait(kind, tx_id)
   local key = key_of(kind, tx_id)
   local deadline_ms = socket.now_ms() + self.options.timeout_ms
   while not self.replies[key] do
      local now_ms = socket.now_ms()
      if now_ms >= deadline_ms then
         self:give_up(key)
         fail("08007", "psp: transaction " .. tx_id .. " may be committed or not: the semi-primary does not answer")
      end
      local wake_ms = deadline_ms
      for _, request in pairs(self.requests) do
         if request.send_at_ms <= now_ms then self:send(request) end
         wake_ms = math.min(wake_ms, request.send_at_ms)
      end
      self:receive(wake_ms - now_ms)
   end
   local reply = self.replies[key]
   self.replies[key] = nil
   return reply
end

return psp
