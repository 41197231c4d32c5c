-- SPDX-License-Identifier: PostgreSQL
-- A ZeroMQ DEALER by LuaJIT's FFI. One Lua state (in sysbench: one thread) owns it.
local ffi = require("ffi")

ffi.cdef [[
void *zmq_ctx_new(void);
void *zmq_socket(void *context, int type);
int zmq_setsockopt(void *socket, int option, const void *value, size_t length);
int zmq_connect(void *socket, const char *endpoint);
int zmq_close(void *socket);
int zmq_send(void *socket, const void *data, size_t length, int flags);
int zmq_recv(void *socket, void *data, size_t length, int flags);
int zmq_errno(void);
const char *zmq_strerror(int number);
typedef struct { void *socket; int fd; short events; short revents; } psp_zmq_pollitem_t;
int zmq_poll(psp_zmq_pollitem_t *items, int count, long timeout_ms);
typedef struct { long seconds; long nanoseconds; } psp_timespec_t;
void *dlopen(const char *name, int flags);
int clock_gettime(int clock, psp_timespec_t *time);
int poll(void *items, unsigned long count, int timeout_ms);
]]

local LIBRARY, RTLD_NOW, RTLD_NODELETE = "libzmq.so.5", 2, 0x1000
local DEALER, LINGER, DONTWAIT, POLLIN, CLOCK_MONOTONIC = 5, 17, 1, 1, 1
local LINGER_MS = 1000  -- a commit request that was just sent still goes out
local MESSAGE_BYTES_MAX = 65536

-- Lua unloads a library when its state ends, but ZeroMQ's own threads still run in it then: so it stays.
ffi.C.dlopen(LIBRARY, RTLD_NOW + RTLD_NODELETE)
local zmq = ffi.load(LIBRARY)
local context
local buffer = ffi.new("char[?]", MESSAGE_BYTES_MAX)
local time = ffi.new("psp_timespec_t")

local socket = {}
socket.__index = socket

function socket.now_ms()
   -- As void *: a script may have declared the function with a type of its own.
   ffi.C.clock_gettime(CLOCK_MONOTONIC, ffi.cast("void *", time))
   return tonumber(time.seconds) * 1000 + tonumber(time.nanoseconds) / 1e6
end

function socket.sleep(milliseconds)
   ffi.C.poll(nil, 0, math.ceil(milliseconds))
end

local function check(ok, what)
   if not ok then error(what .. ": " .. ffi.string(zmq.zmq_strerror(zmq.zmq_errno())), 0) end
end

function socket.connect(endpoint)
   context = context or zmq.zmq_ctx_new()
   local handle = zmq.zmq_socket(context, DEALER)
   check(handle ~= nil, "zmq_socket")
   local self = setmetatable({handle = handle, item = ffi.new("psp_zmq_pollitem_t[1]")}, socket)
   local linger = ffi.new("int[1]", LINGER_MS)
   check(zmq.zmq_setsockopt(handle, LINGER, linger, ffi.sizeof("int")) == 0, "zmq_setsockopt")
   check(zmq.zmq_connect(handle, endpoint) == 0, "zmq_connect " .. endpoint)
   self.item[0].socket, self.item[0].events = handle, POLLIN
   return self
end

-- Never waits: what a full queue does not take is sent again later.
function socket:send(data)
   zmq.zmq_send(self.handle, data, #data, DONTWAIT)
end

-- The next message; nil if none comes in time.
function socket:receive(timeout_ms)
   zmq.zmq_poll(self.item, 1, math.max(0, math.ceil(timeout_ms)))
   local length = zmq.zmq_recv(self.handle, buffer, MESSAGE_BYTES_MAX, DONTWAIT)
   return length >= 0 and ffi.string(buffer, math.min(length, MESSAGE_BYTES_MAX)) or nil
end

function socket:close()
   zmq.zmq_close(self.handle)
end

return socket
