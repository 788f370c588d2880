BEGIN TRANSACTION;
CREATE TABLE acceptances (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    meaning TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    at REAL NOT NULL, checksum TEXT,
    UNIQUE (scope, server, tool, meaning)
);
INSERT INTO "acceptances" VALUES(1,'/home/someone/discovery.yaml','a','one','c0de','f00d','{"name":"one"}',1000.0,'bd0de732174b311f');
CREATE TABLE agent_requests (
    number INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL
);
INSERT INTO "agent_requests" VALUES(1,'/home/someone/discovery.yaml','1a2b3c4d','{"id":"1a2b3c4d","action":"activate","name":"a"}');
CREATE TABLE approvals (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    identity TEXT NOT NULL,
    at REAL NOT NULL, checksum TEXT,
    UNIQUE (scope, server, identity)
);
INSERT INTO "approvals" VALUES(1,'/home/someone/discovery.yaml','a','1d',1000.0,'40cb483f2e0cde0e');
CREATE TABLE decision_log (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL,
    checksum TEXT NOT NULL,
    rows INTEGER NOT NULL
);
INSERT INTO "decision_log" VALUES(1,4,'55f2df496b940ec90f678e563bd106e5',4);
CREATE TABLE eras (
    id INTEGER PRIMARY KEY,
    connection TEXT NOT NULL UNIQUE,
    era TEXT NOT NULL
);
INSERT INTO "eras" VALUES(1,'c0ffee','{"era": "old"}');
CREATE TABLE indexes (
    scope INTEGER PRIMARY KEY REFERENCES scopes ON DELETE CASCADE,
    data BLOB NOT NULL
);
INSERT INTO "indexes" VALUES(1,X'00FF');
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    renewals INTEGER NOT NULL
);
INSERT INTO "leases" VALUES('http 127.0.0.1:3424','4711-00ff',3,12);
CREATE TABLE listings (
    server INTEGER PRIMARY KEY REFERENCES servers ON DELETE CASCADE,
    names TEXT NOT NULL, -- JSON
    upstream_names TEXT NOT NULL, -- JSON
    verdicts TEXT NOT NULL, -- JSON of those that differ, a line each
    judged TEXT NOT NULL, -- JSON: numbers of verdicts, and how many tools in a row have each
    sources BLOB NOT NULL, -- the definitions in UTF-8, a line each
    digest BLOB -- of what the tools say; NULL where an older version wrote the row
, offerings TEXT);
INSERT INTO "listings" VALUES(1,'["one", "two"]','["one", "two"]','{"tags":["x"]}
{"enabled":false,"reason":"rule","rule":0}','[[0, 1], [1, 1]]',X'7B226465736372697074696F6E223A22222C22696E707574536368656D61223A7B2270726F70657274696573223A7B7D2C2274797065223A226F626A656374227D2C226E616D65223A226F6E65227D0A7B226465736372697074696F6E223A22222C22696E707574536368656D61223A7B2270726F70657274696573223A7B7D2C2274797065223A226F626A656374227D2C226E616D65223A2274776F227D',X'6CA601451DF451307F987A857AB7C507B9A88A0886CCC2CAF704EE1A18114B17','[["resource", "file:///a", "{\"tags\":[\"x\"]}", "{\"name\":\"a\",\"uri\":\"file:///a\"}"], ["prompt", "review", "{\"enabled\":false,\"reason\":\"changed\"}", "{\"name\":\"review\"}"]]');
CREATE TABLE losses (
    scope TEXT PRIMARY KEY,
    at REAL NOT NULL,
    acknowledged REAL,
    checksum TEXT NOT NULL
);
CREATE TABLE presets (
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL, -- JSON
    updated_at REAL NOT NULL,
    PRIMARY KEY (scope, server, tool, name)
);
INSERT INTO "presets" VALUES('/home/someone/discovery.yaml','a','one','usual','{"x": 1}',8.0);
CREATE TABLE refresh_fences (last INTEGER NOT NULL);
INSERT INTO "refresh_fences" VALUES(3);
CREATE TABLE refresh_jobs (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    created_at REAL NOT NULL,
    due_at REAL NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    claimed_at REAL,
    lease_until REAL,
    listed_at REAL,
    tool_count INTEGER,
    error_code TEXT NOT NULL,
    error_message TEXT NOT NULL,
    connection TEXT NOT NULL,
    claimable_at REAL, failing_since REAL, losses INTEGER NOT NULL DEFAULT 0, named_until REAL,
    UNIQUE (scope, server)
);
INSERT INTO "refresh_jobs" VALUES(1,'/home/someone/discovery.yaml','a',1000.0,87400.0,'enabled',0,0,'',3,NULL,NULL,1000.0,2,'','','f1',87400.0,NULL,0,10000.0);
CREATE TABLE registered_servers (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (scope, name)
);
INSERT INTO "registered_servers" VALUES(1,'/home/someone/discovery.yaml','mail','{"name":"mail","entry":{"command":"npx","args":["-y","@acme/mail@1.2.3"],"tags":["post"]},"source":"marketplace","package":{"registry_type":"npm","identifier":"@acme/mail","version":"1.2.3","integrity":"sha512-00","runtime":"npx"},"marketplace_id":"acme/mail","created_at":5.0,"updated_at":6.0}','22cff07cef544356');
CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    saved INTEGER NOT NULL -- a number that rises with every save in any scope
, decided TEXT);
INSERT INTO "scopes" VALUES(1,'/home/someone/discovery.yaml','{"servers":[{"name":"a","transport":null,"prefix":"a_","tags":["x"],"isUntrustedOrigin":true,"origin":{"file":"/home/someone/discovery.yaml","line":2,"column":3}},{"name":"b","transport":null,"origin":{"file":"/home/someone/discovery.yaml","line":3,"column":3},"problem":{"code":"CONFIG_UNKNOWN_KEY","message":"unknown key","subject":"servers.b.x","origin":{"file":"/home/someone/discovery.yaml","line":4,"column":5}}}],"toolRules":[{"pattern":["*x"],"enabled":false}],"search":{"maxTokens":200},"path":"/home/someone/discovery.yaml","inputs":[{"path":"/home/someone/discovery.yaml","digest":"f00d"}]}',3,4,'1.0.0 4');
CREATE TABLE server_marks (
    scope TEXT PRIMARY KEY,
    mark TEXT NOT NULL
);
INSERT INTO "server_marks" VALUES('/home/someone/discovery.yaml','00');
CREATE TABLE servers (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
    name TEXT NOT NULL,
    part TEXT, saved INTEGER NOT NULL DEFAULT 0, told_failing_at REAL, told_well_at REAL,
    UNIQUE (scope, name)
);
INSERT INTO "servers" VALUES(1,1,'a','{"server":"a","listed_at":1000.0,"failure":{"code":"C","message":"m","hint":"h","at":2.0}}',1,NULL,NULL);
INSERT INTO "servers" VALUES(2,1,'b',NULL,0,NULL,NULL);
CREATE TABLE switches (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    is_wanted INTEGER NOT NULL,
    at REAL NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (scope, server)
);
INSERT INTO "switches" VALUES(1,'/home/someone/discovery.yaml','a',0,7.0,'b394877c002893bf');
CREATE TABLE typical_requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    requests TEXT NOT NULL,
    model TEXT NOT NULL,
    instructions INTEGER NOT NULL,
    at REAL NOT NULL,
    UNIQUE (server, tool, fingerprint)
);
INSERT INTO "typical_requests" VALUES(1,'a','one','f00','["do one"]','m',1,5.0);
CREATE TABLE uses (
    server INTEGER NOT NULL REFERENCES servers ON DELETE CASCADE,
    tool TEXT NOT NULL,
    count REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (server, tool)
) WITHOUT ROWID;
INSERT INTO "uses" VALUES(1,'one',2.5,1000.0);
CREATE TABLE vector_uses (
    scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
    vector INTEGER NOT NULL REFERENCES vectors ON DELETE CASCADE, period INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, vector)
) WITHOUT ROWID;
INSERT INTO "vector_uses" VALUES(1,1,681);
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    digest BLOB NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (model, digest)
);
INSERT INTO "vectors" VALUES(1,'hash:64',X'D16E57',X'003C');
CREATE TABLE webhook_deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- a result of a dropped one must never meet another
    webhook INTEGER NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    body TEXT NOT NULL,
    stored_at REAL NOT NULL,
    tried_since REAL NOT NULL,
    due_at REAL,
    attempts INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "webhook_deliveries" VALUES(1,1,'msg_1','server.added','{"type":"server.added"}',1000.0,1000.0,1000.0,1,1);
CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL, -- JSON of its settings, without its address and its secrets
    address TEXT NOT NULL, -- digest of its address as written
    left_at REAL, -- since when the settings do not name it
    disabled_at REAL,
    delivered INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0,
    delivered_at REAL,
    failed_at REAL,
    failure TEXT NOT NULL DEFAULT '',
    UNIQUE (scope, name)
);
INSERT INTO "webhooks" VALUES(1,'/home/someone/discovery.yaml','ops','{"name":"ops"}','d1',NULL,NULL,3,0,NULL,NULL,'');
CREATE INDEX uses_by_vector ON vector_uses (vector);
CREATE INDEX servers_by_save ON servers (saved);
CREATE INDEX refresh_jobs_by_turn ON refresh_jobs (scope, priority DESC, claimable_at)
    WHERE claimable_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_turn ON webhook_deliveries (webhook, due_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('typical_requests',1);
INSERT INTO "sqlite_sequence" VALUES('webhook_deliveries',1);
COMMIT;
PRAGMA user_version = 21;
