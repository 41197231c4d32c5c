-- Where this database stands. Locked: the COMMIT of a lost session may still be on its way in the server. It moves W and
-- takes proofs away, and the stream must not begin before that.
LOCK TABLE psp.watermarks IN SHARE MODE;
SELECT w.watermark, i.joining FROM psp.watermark w, psp.identity i
