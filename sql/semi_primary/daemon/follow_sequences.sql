-- $1: the watermark of the last look. Nothing while no rows have been applied since. What it returns is the watermark before this look: rows
-- that are applied meanwhile, or are decided and still on their way, are for the next one.
SELECT w.watermark, psp.advance_sequences(true) FROM psp.watermark w WHERE w.watermark <> $1
