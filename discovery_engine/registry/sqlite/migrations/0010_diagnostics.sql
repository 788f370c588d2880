-- A problem of a server or of the configuration has a code. Settings that were stored with problems
-- have none: they keep the names of their servers, and are read from their files again.
UPDATE scopes SET decided = NULL, settings = json_object(
    'servers', json((
        SELECT json_group_array(json_object(
            'name', name, 'transport', NULL, 'isUntrustedOrigin', json('true')))
        FROM servers WHERE scope = scopes.id AND typeof(name) = 'text')),
    'inputs', json('[{"path":"/","digest":"of an older version"}]'))
WHERE instr(settings, '"warnings":') OR instr(settings, '"problem":');
