-- Statements as sql_files.read_named gives them, ready to be called on one connection:
--    local run = statements.open(connection, prepared, sql_files.read_named("transactions.sql"))
--    local rs = run("payment_district", w_id, d_id, "12.50")
-- Values are Lua numbers, strings or nil, or arrays (tables) of numbers or strings.
local statements = {}

local function quoted(text)
   return "'" .. text:gsub("'", "''") .. "'"
end

local function array_element(value)
   if type(value) == "number" then
      return tostring(value)
   end
   return '"' .. value:gsub('[\\"]', "\\%0") .. '"'
end

local function literal(value)
   if value == nil then
      return "NULL"
   elseif type(value) == "number" then
      return tostring(value)
   elseif type(value) == "string" then
      return quoted(value)
   end
   local elements = {}
   for i = 1, #value do
      elements[i] = array_element(value[i])
   end
   return quoted("{" .. table.concat(elements, ",") .. "}")
end

-- "a $1 b $2" becomes {"a ", 1, " b ", 2}: what stands between the parameters, and their numbers.
local function split(text)
   local parts, from = {}, 1
   for before, number, after in text:gmatch("()%$(%d+)()") do
      parts[#parts + 1] = text:sub(from, before - 1)
      parts[#parts + 1] = tonumber(number)
      from = after
   end
   parts[#parts + 1] = text:sub(from)
   return parts
end

local function fill(parts, values)
   local pieces = {}
   for i, part in ipairs(parts) do
      pieces[i] = type(part) == "number" and literal(values[part]) or part
   end
   return table.concat(pieces)
end

local function written_in(connection, texts)
   local all_parts = {}
   for name, statement in pairs(texts) do
      all_parts[name] = split(statement.text)
   end
   return function(name, ...)
      return connection:query(fill(all_parts[name], {...}))
   end
end

local function prepare_all(connection, texts)
   for name, statement in pairs(texts) do
      connection:query(string.format("PREPARE %s (%s) AS %s", name, statement.types, statement.text))
   end
end

local function executed(connection, texts)
   prepare_all(connection, texts)
   local run = function(name, ...)
      local literals = {}
      for i = 1, select("#", ...) do
         literals[i] = literal((select(i, ...)))
      end
      return connection:query("EXECUTE " .. name .. "(" .. table.concat(literals, ",") .. ")")
   end
   return run
end

-- Returns a function (name, values...) -> result. Call it again after a reconnect.
function statements.open(connection, prepared, texts)
   return (prepared and executed or written_in)(connection, texts)
end

return statements
