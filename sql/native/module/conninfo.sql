-- Where the daemon is, and how this database proves itself: psp.hook_connect has the same.
SELECT format('%s user=psp dbname=psp password=%s@%s connect_timeout=5 application_name=psp_hook', i.hook_conninfo,
              psp.proof(i.token, 'login'), psp.this_database())
  FROM psp.identity i
