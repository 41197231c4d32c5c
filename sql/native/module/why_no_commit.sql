-- Why no transaction can commit here, for people; NULL: they can. As psp.can_commit(), in one snapshot.
SELECT CASE WHEN pg_is_in_recovery() OR (SELECT s.can_commit FROM psp.status s) IS NOT TRUE THEN (SELECT format('psp.status says %s', s.state) FROM psp.status s) END
