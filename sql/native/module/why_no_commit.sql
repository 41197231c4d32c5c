-- Why no transaction can commit here, for people; NULL: they can.
SELECT CASE WHEN NOT psp.can_commit() THEN (SELECT format('psp.status says %s', s.state) FROM psp.status s) END
