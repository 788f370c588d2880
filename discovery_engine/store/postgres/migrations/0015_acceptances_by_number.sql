-- usable from: 12
-- What is newer than a decision is read after each decision, by every gateway.
CREATE INDEX acceptances_by_number ON discovery.acceptances (number);
