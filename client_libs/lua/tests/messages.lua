-- SPDX-License-Identifier: PostgreSQL
-- Run by test_lua.py, in sysbench: the messages, byte by byte.
local folder = debug.getinfo(1, "S").source:match("^@(.*/)")
package.path = folder .. "../?.lua;" .. folder .. "?.lua;" .. package.path
local messages = require("psp_messages")
local socket = require("psp_socket")
local equal = require("equal")

local TX = "00112233-4455-6677-8899-aabbccddeeff"
local BYTES = "\0\17\34\51\68\85\102\119\136\153\170\187\204\221\238\255"

local function test_messages()
   equal(messages.request(300, messages.COMMIT, TX), "\8\172\2\16\1\26\16" .. BYTES, "request")
   equal(pcall(messages.request, 1, messages.COMMIT, "no uuid"), false, "request for no uuid")
   local reply = messages.read_reply("\8\172\2\16\1\26\16" .. BYTES .. "\32\255\255\255\255\7")
   equal(reply.request_id, 300, "request_id")
   equal(reply.status, "committed", "status")
   equal(reply.tx_id, BYTES, "tx_id")
   equal(reply.global_t, 2147483647, "global_t")
   local unknown = "\74\2xx\81" .. ("\0"):rep(8) .. "\93" .. ("\0"):rep(4)
   reply = messages.read_reply(unknown .. "\16\2\42\00540001\50\2no")
   equal(reply.status, "aborted", "status after unknown fields")
   equal(reply.sqlstate, "40001", "sqlstate")
   equal(reply.message, "no", "message")
   for i, garbage in ipairs({"\8", "\26\16short", "\16\99", "\11", ("\255"):rep(20), "\26\1"}) do
      equal(messages.read_reply(garbage), nil, "garbage " .. i)
   end
end

local function test_socket()
   local nobody = socket.connect("inproc://nobody")
   nobody:send("lost")
   local before_ms = socket.now_ms()
   equal(nobody:receive(5), nil, "a message from nobody")
   equal(socket.now_ms() > before_ms, true, "time passes")
   nobody:close()
end

sysbench.cmdline.commands = {check = {function()
   test_messages()
   test_socket()
   print("all is well")
end}}
