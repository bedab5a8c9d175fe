-- A ticket is updated once, when it is sold, and each of these pages twice as full afterwards. Half of each page is left free for
-- that, so that the new row stays on the page of the old one, where locking both writes less, and its index entry fits without a
-- split. The sale of a ticket writes a fifth less WAL; a table that is sold out is as large as it would be anyway.
ALTER TABLE tickets SET (fillfactor = 50);
ALTER INDEX tickets_pkey SET (fillfactor = 50);
