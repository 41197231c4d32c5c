-- Loading, in parallel: `sysbench ... --threads=N prepare` runs prepare() in N threads, each with its share of the
-- units of work; the one that finishes last makes the keys. The threads meet in the table tpcc_load.
local ffi = require("ffi")
local random = require("tpcc_random")
local sql_files = require("tpcc_sql_files")

local load = {}

ffi.cdef("int getpid(void);")

local TABLES = {"order_line", "new_order", "orders", "history", "customer", "stock", "district", "item", "warehouse"}

-- The first thread creates the tables; the others find its mark (all threads are one process).
local function create_tables(connection)
   connection:query("BEGIN")
   connection:query("SELECT pg_advisory_xact_lock(hashtextextended('tpcc_load', 0))")
   if connection:query_row("SELECT to_regclass('tpcc_load')") == nil then
      if connection:query_row("SELECT to_regclass('warehouse')") ~= nil then
         error("there is a table `warehouse` already: run cleanup first")
      end
      connection:query("CREATE TABLE tpcc_load AS SELECT " .. ffi.C.getpid() .. " AS loader, 0 AS finished")
      connection:query(sql_files.read("schema.sql"))
   elseif tonumber(connection:query_row("SELECT loader FROM tpcc_load")) ~= ffi.C.getpid() then
      error("an earlier load was interrupted: run cleanup first")
   end
   connection:query("COMMIT")
end

local function units(options)
   local list = {{name = "item", w = 0}}
   for w = 1, options.warehouses do
      for _, name in ipairs({"orders", "stock", "customer", "warehouse"}) do
         list[#list + 1] = {name = name, w = w}
      end
   end
   return list
end

local function run_unit(connection, parts, unit, options)
   local values = {
      w = unit.w,
      items = options.items,
      customers = options.customers,
      delivered = math.floor(options.customers * 0.7),
      c_last = random.LAST_NAME_LOAD_C,
   }
   local text = parts[unit.name].text:gsub("([^:]):([%a_]+)", function(before, name)
      return before .. assert(values[name], "unknown :" .. name)
   end)
   connection:query(text)
end

-- True for the thread that is the last to arrive.
local function arrive(connection, threads)
   local finished = connection:query_row("UPDATE tpcc_load SET finished = finished + 1 RETURNING finished")
   return tonumber(finished) == threads
end

local function finish(connection, options)
   connection:query(sql_files.read("keys.sql"))
   if options.foreign_keys then
      connection:query(sql_files.read("foreign_keys.sql"))
   end
   for _, name in ipairs(TABLES) do
      connection:query("VACUUM ANALYZE " .. name)
   end
   connection:query("DROP TABLE tpcc_load")
   print(string.format("%d warehouses loaded", options.warehouses))
end

function load.prepare(connection, options)
   create_tables(connection)
   connection:query("SET synchronous_commit = off")
   local parts = sql_files.read_named("load.sql")
   connection:query(parts.helpers.text)
   for i, unit in ipairs(units(options)) do
      if (i - 1) % options.threads == sysbench.tid then
         run_unit(connection, parts, unit, options)
      end
   end
   if arrive(connection, options.threads) then
      finish(connection, options)
   end
end

function load.cleanup(connection)
   connection:query("DROP TABLE IF EXISTS tpcc_load, " .. table.concat(TABLES, ", "))
end

return load
