-- Nothing while W has not reached $1: after a crash of PostgreSQL the rows may still be on their way.
SELECT psp.advance_sequences() FROM psp.watermark WHERE watermark >= $1
