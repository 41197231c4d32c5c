-- Rows have been refused with error $1 and message $2. What has been done about it; null: nothing can be.
SELECT psp.remove_obstacle($1, $2)
