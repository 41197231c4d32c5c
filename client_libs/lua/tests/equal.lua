-- SPDX-License-Identifier: PostgreSQL
-- What the tests of this folder call: ends the program with what was found instead.
return function(found, expected, what)
   if found ~= expected then
      io.stderr:write(what, ": ", tostring(found), " instead of ", tostring(expected), "\n")
      os.exit(1)
   end
end
