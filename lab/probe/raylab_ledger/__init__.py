"""Records what trainings do, in the ledger, and changes nothing; `report` fails where a fault was armed."""
