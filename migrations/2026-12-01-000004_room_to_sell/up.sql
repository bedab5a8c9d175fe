-- A ticket is updated once, when it is sold: the row that is then written beside the old one is half as long again, with its order and
-- its code. So much of each page is left free for that: a new row that finds no room on the old one's page writes a second lock, and
-- dirties two pages for one sale. Of the index, half a page is free for the second entry, which spares a split. A table that is sold
-- out is as large as it would be anyway.
ALTER TABLE tickets SET (fillfactor = 40);
ALTER INDEX tickets_pkey SET (fillfactor = 50);
