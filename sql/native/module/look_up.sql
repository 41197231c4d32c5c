-- The rows that settle the doubts in $1.
SELECT psp.look_up($1)
