-- Settings are stored by the keys of `discovery.yaml`. Those stored before keep the names of their
-- servers, and are read from their files again: an input that is not as it was says so.
UPDATE scopes SET settings = json_object(
    'servers', json((
        SELECT json_group_array(json_object(
            'name', name, 'transport', NULL, 'isUntrustedOrigin', json('true')))
        FROM servers WHERE scope = scopes.id AND typeof(name) = 'text')),
    'inputs', json('[{"path":"/","digest":"of an older version"}]'));
