-- SPDX-License-Identifier: PostgreSQL
-- The messages of proto/psp_client.proto, by hand: a page of code, no library. Numbers up to 2^53 are exact.
local messages = {}

messages.COMMIT, messages.OUTCOME, messages.ABORT = 1, 2, 3
-- Status numbers to names.
messages.STATUS = {[0] = "unspecified", "committed", "aborted", "running", "waiting", "pending", "failed"}

local VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
local NAMES = {[1] = "request_id", [2] = "status", [3] = "tx_id", [4] = "global_t", [5] = "sqlstate",
               [6] = "message", [7] = "detail", [8] = "hint"}

local function varint(value)
   local bytes = {}
   while value > 127 do
      bytes[#bytes + 1] = string.char(value % 128 + 128)
      value = math.floor(value / 128)
   end
   bytes[#bytes + 1] = string.char(value)
   return table.concat(bytes)
end

-- The 16 bytes of a uuid's text.
function messages.uuid_bytes(text)
   local hex = text:gsub("-", "")
   assert(#hex == 32 and not hex:find("%X"), "not a transaction's id: " .. text)
   return (hex:gsub("..", function(byte) return string.char(tonumber(byte, 16)) end))
end

-- A ClientRequest.
function messages.request(request_id, kind, tx_id)
   return "\8" .. varint(request_id) .. "\16" .. varint(kind) .. "\26\16" .. messages.uuid_bytes(tx_id)
end

local function read_varint(data, position)
   local value, place = 0, 1
   for _ = 1, 10 do
      local byte = data:byte(position)
      if not byte then return nil end
      position = position + 1
      value = value + byte % 128 * place
      if byte < 128 then return value, position end
      place = place * 128
   end
end

-- The value of a field of that wire type, and where the next field begins; nothing if it is cut off.
local function read_value(data, position, wire_type)
   if wire_type == VARINT then
      return read_varint(data, position)
   end
   local length = wire_type == FIXED64 and 8 or wire_type == FIXED32 and 4
   if wire_type == BYTES then
      length, position = read_varint(data, position)
   end
   if length and position + length - 1 <= #data then
      return data:sub(position, position + length - 1), position + length
   end
end

-- A ClientReply as a table {request_id, status (name), global_t, sqlstate, message, detail, hint}; nil if it is none.
function messages.read_reply(data)
   local reply, position = {request_id = 0, status = 0, global_t = 0}, 1
   while position <= #data do
      local tag, value
      tag, position = read_varint(data, position)
      if not tag then return nil end
      value, position = read_value(data, position, tag % 8)
      if not value then return nil end
      local name = NAMES[math.floor(tag / 8)]
      if name then
         reply[name] = value
      end
   end
   reply.status = messages.STATUS[reply.status]
   return reply.status and reply
end

return messages
