-- Reads the SQL files that stand beside the scripts.
local sql_files = {}

sql_files.folder = (debug.getinfo(1, "S").source:match("^@(.*/)")) or "./"

-- Of the folder, or of this one.
function sql_files.read(name, folder)
   local file = assert(io.open((folder or sql_files.folder) .. name, "r"))
   local text = file:read("*a")
   file:close()
   return text
end

local function without_comments(text)
   return (text:gsub("%-%-[^\n]*", ""):gsub("^%s+", ""):gsub("%s+$", ""))
end

-- {name = {types = "int, text", text = "SELECT ..."}} of a file whose parts begin with `-- name: NAME(TYPES)`.
function sql_files.read_named(name, folder)
   local parts, part = {}, nil
   for line in sql_files.read(name, folder):gmatch("([^\n]*)\n") do
      local part_name, types = line:match("^%-%- name: ([%w_]+)%(?(.-)%)?$")
      if part_name then
         part = {types = types, lines = {}}
         parts[part_name] = part
      elseif part then
         part.lines[#part.lines + 1] = line
      end
   end
   for _, found in pairs(parts) do
      found.text = without_comments(table.concat(found.lines, "\n"))
   end
   return parts
end

return sql_files
