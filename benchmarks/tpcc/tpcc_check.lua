-- `check`: the consistency conditions of check.sql. check.py does the same with an exit code to rely on.
local sql_files = require("tpcc_sql_files")

local check = {}

function check.run(connection)
   local rs = connection:query(sql_files.read("check.sql"))
   local holds = true
   for _ = 1, rs.nrows do
      local number, description, violations = unpack(rs:fetch_row(), 1, 3)
      print(string.format("%-4s %2d  %s", violations == "0" and "ok" or "BAD", tonumber(number), description))
      holds = holds and violations == "0"
   end
   return holds
end

return check
