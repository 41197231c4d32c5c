-- The semi-primary may follow a primary that lacks the last epoch that it has followed: until its daemon has followed one.
UPDATE psp.epochs SET binding = false
