ALTER INDEX tickets_pkey RESET (fillfactor);
ALTER TABLE tickets RESET (fillfactor);
