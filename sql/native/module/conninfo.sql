SELECT psp.conninfo_of_daemon()
