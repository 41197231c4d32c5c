-- Epoch $1 begins with number $2, $3 being the newest here. What is not decided will never be: no older daemon decides any
-- more.
WITH settled AS (
    UPDATE psp.log_start SET settled_t = $3
), forgotten AS (
    DELETE FROM psp.decided
)
INSERT INTO psp.epochs (epoch, start_t, kept_t) VALUES ($1, $2, $3)
