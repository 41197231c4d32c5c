-- What happened, counted in each thread (each has its own Lua state) and added up at the end by the main one. A thread
-- writes its counts to FILE.thread-N; merge() reads those files, writes FILE (JSON) and removes them.
-- Times go into buckets one percent wide, so percentiles are exact to one percent and counts add up without loss.
local ffi = require("ffi")

local report = {}

ffi.cdef [[
typedef struct { long tv_sec; long tv_nsec; } tpcc_timespec_t;
int clock_gettime(int clock, tpcc_timespec_t *time);
]]

local CLOCK_MONOTONIC = 1
local BUCKETS_PER_E = 100
local timespec = ffi.new("tpcc_timespec_t")

function report.now_ms()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, timespec)
   return tonumber(timespec.tv_sec) * 1e3 + tonumber(timespec.tv_nsec) / 1e6
end

-- {["count/new_order"] = 12, ["time/all/512"] = 3, ...}: every entry adds up over the threads.
local counts = {}
local first_ms, last_ms

function report.add(name, amount)
   counts[name] = (counts[name] or 0) + (amount or 1)
end

function report.time(name, ms)
   local bucket = math.floor(math.log(math.max(ms, 0.001)) * BUCKETS_PER_E + 0.5)
   report.add("time/" .. name .. "/" .. bucket)
end

-- The span that throughput is measured over, for this thread.
function report.span(from_ms, to_ms)
   first_ms = math.min(first_ms or from_ms, from_ms)
   last_ms = math.max(last_ms or to_ms, to_ms)
end

local function thread_file(path, thread)
   return path .. ".thread-" .. thread
end

function report.write_thread(path, thread)
   local file = assert(io.open(thread_file(path, thread), "w"))
   if first_ms then
      file:write(string.format("span %.3f %.3f\n", first_ms, last_ms))
   end
   for name, amount in pairs(counts) do
      file:write(string.format("%s %.17g\n", name, amount))
   end
   assert(file:close())
end

local function read_thread(path, thread, total)
   local name = thread_file(path, thread)
   local file = io.open(name, "r")
   if not file then
      return
   end
   total.threads = total.threads + 1
   for line in file:lines() do
      local key, first, second = line:match("^(%S+) (%S+) ?(%S*)$")
      if key == "span" then
         total.first_ms = math.min(total.first_ms, tonumber(first))
         total.last_ms = math.max(total.last_ms, tonumber(second))
      else
         total.counts[key] = (total.counts[key] or 0) + tonumber(first)
      end
   end
   file:close()
   os.remove(name)
end

local function histogram(total, name)
   local buckets, prefix = {count = 0}, "time/" .. name .. "/"
   for key, amount in pairs(total.counts) do
      if key:sub(1, #prefix) == prefix then
         buckets[#buckets + 1] = {ms = math.exp(tonumber(key:sub(#prefix + 1)) / BUCKETS_PER_E), count = amount}
         buckets.count = buckets.count + amount
      end
   end
   table.sort(buckets, function(a, b) return a.ms < b.ms end)
   return buckets
end

-- nil (null in JSON) when nothing was measured.
local function percentile(buckets, fraction)
   local wanted, seen = fraction * buckets.count, 0
   for _, bucket in ipairs(buckets) do
      seen = seen + bucket.count
      if seen >= wanted then
         return bucket.ms
      end
   end
end

local function json_value(value)
   if type(value) == "string" then
      return string.format("%q", value)
   elseif value == nil then
      return "null"
   end
   return string.format(value % 1 == 0 and "%.0f" or "%.6g", value)
end

-- An object from an array of {key, value}; a value that is a string beginning with { is JSON already.
local function json_object(entries, indent)
   local lines = {}
   for i, entry in ipairs(entries) do
      local value = entry[2]
      local text = type(value) == "string" and value:sub(1, 1) == "{" and value or json_value(value)
      lines[i] = string.format('%s  "%s": %s', indent, entry[1], text)
   end
   return "{\n" .. table.concat(lines, ",\n") .. "\n" .. indent .. "}"
end

local function percentiles(entries, total, name, prefix)
   local buckets = histogram(total, name)
   for _, p in ipairs({50, 95, 99}) do
      entries[#entries + 1] = {prefix .. "p" .. p .. "_ms", percentile(buckets, p / 100)}
   end
   return entries
end

local function by_type(total, names, seconds)
   local entries = {}
   for i, name in ipairs(names) do
      local count = total.counts["committed/" .. name] or 0
      entries[i] = {name, json_object(percentiles({
         {"transactions", count},
         {"tps", count / seconds},
         {"aborts", total.counts["aborts/" .. name] or 0},
         {"errors", total.counts["errors/" .. name] or 0},
      }, total, name, ""), "    ")}
   end
   return json_object(entries, "  ")
end

-- An object of the counts whose names begin with `prefix`.
local function counts_of(total, prefix)
   local entries = {}
   for key, amount in pairs(total.counts) do
      local name = key:match("^" .. prefix .. "/(.*)$")
      if name then entries[#entries + 1] = {name, amount} end
   end
   table.sort(entries, function(a, b) return a[1] < b[1] end)
   return #entries == 0 and "{}" or json_object(entries, "  ")
end

local function sum(total, prefix, names)
   local amount = 0
   for _, name in ipairs(names) do
      amount = amount + (total.counts[prefix .. name] or 0)
   end
   return amount
end

-- Adds up what the threads left and writes the JSON file. `fields`: options that it repeats; `names`: the transactions'.
function report.merge(path, options, fields, names)
   local total = {counts = {}, threads = 0, first_ms = math.huge, last_ms = -math.huge}
   for thread = 0, options.threads - 1 do
      read_thread(path, thread, total)
   end
   local seconds = total.last_ms > total.first_ms and (total.last_ms - total.first_ms) / 1000 or 1
   local committed = sum(total, "committed/", names)
   local entries = {
      {"threads", total.threads}, {"isolation", options.isolation},
      {"duration_s", seconds}, {"transactions", committed}, {"tps", committed / seconds},
      {"aborts", sum(total, "aborts/", names)}, {"retries", sum(total, "retries/", names)},
      {"gave_up", sum(total, "gave_up/", names)}, {"rollbacks", sum(total, "rollbacks/", names)},
      {"errors", sum(total, "errors/", names)},
      {"first_ms", math.floor(total.first_ms)}, {"last_ms", math.floor(total.last_ms)},
   }
   for _, field in ipairs(fields) do
      entries[#entries + 1] = {field, options[field]}
   end
   percentiles(entries, total, "all", "")
   percentiles(entries, total, "commit", "commit_")
   entries[#entries + 1] = {"errors_by_sqlstate", counts_of(total, "state")}
   entries[#entries + 1] = {"by_second", counts_of(total, "second")}
   entries[#entries + 1] = {"by_type", by_type(total, names, seconds)}
   local file = assert(io.open(path, "w"))
   file:write(json_object(entries, ""), "\n")
   assert(file:close())
   if total.threads < options.threads then
      error(string.format("only %d of %d threads reported: %s is incomplete", total.threads, options.threads, path))
   end
end

return report
