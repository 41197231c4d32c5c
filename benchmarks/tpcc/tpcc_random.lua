-- The specification's random inputs (clauses 2.1.6 and 4.3.2). One Lua state for each thread, so no state is shared.
local random = {}

local uniform = sysbench.rand.uniform

local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

-- The constants C of NURand. The one for last names differs between loading and running by 66, which clause 2.1.6.1
-- allows; all zones of a run use the same.
random.LAST_NAME_LOAD_C = 157
local LAST_NAME_RUN_C = 223
local CUSTOMER_C = 259
local ITEM_C = 7911

random.uniform = uniform

function random.chance(percent)
   return uniform(1, 100) <= percent
end

local function nurand(a, c, low, high)
   return (bit.bor(uniform(0, a), uniform(low, high)) + c) % (high - low + 1) + low
end

-- A of NURand for a range: the specification's values at full scale, the same proportion for a smaller one.
local function spread(count, full_count, full_a)
   local a = full_a
   while a > 1 and a * full_count > full_a * count do
      a = (a - 1) / 2
   end
   return a
end

function random.customer_id(customers)
   return nurand(spread(customers, 3000, 1023), CUSTOMER_C, 1, customers)
end

function random.item_id(items)
   return nurand(spread(items, 100000, 8191), ITEM_C, 1, items)
end

function random.last_name(customers)
   local number = nurand(255, LAST_NAME_RUN_C, 0, math.min(999, customers - 1))
   return SYLLABLES[math.floor(number / 100) + 1] .. SYLLABLES[math.floor(number / 10) % 10 + 1] ..
      SYLLABLES[number % 10 + 1]
end

return random
