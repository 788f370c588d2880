// A person who fills in a form in any way that it allows.
([schema, choices]) => {
    const { fieldOf, initial, blank, withMember, withItem, numberIn, jsonText } = field;
    let taken = 0;
    const pick = (count) => choices[taken++ % choices.length] % count;
    const kinds = new Set();
    const texts = ["", "a", "ab", "\u{1f600}", "2026-11-23", "ann@example.org", "longer than ten characters"];
    const numbers = ["0", "1", "-3", "2.5", "10", "1e2", "7", "100000"];
    function fill(given, value, depth) {
        const one = fieldOf(given, schema, depth);
        kinds.add(one.kind);
        if (one.isNullable && pick(4) === 0) return null;
        switch (one.kind) {
            case "text": return texts[pick(texts.length)];
            case "file": return btoa(texts[pick(3)]);
            case "number": return numberIn(numbers[pick(numbers.length)], one.isWhole);
            case "boolean": return pick(2) === 0;
            case "choice": return one.options[pick(one.options.length)].value;
            case "several": return one.options.filter(() => pick(2) === 0).map((option) => option.value);
            case "const": return one.schema.const;
            case "null": return null;
            case "variants": {
                const variant = one.variants[pick(one.variants.length)];
                return fill(variant.schema, initial(variant.schema, schema, true, depth + 1), depth + 1);
            }
            case "list": {
                let list = [];
                for (let count = pick(4); count > 0; count -= 1) {
                    list = withItem([...list, blank(one.item, schema, depth + 1)], list.length, fill(one.item, undefined, depth + 1));
                }
                return list;
            }
            case "group": {
                let group = value ?? {};
                for (const member of one.members) {
                    const is_left = !member.isRequired && (depth > 3 || pick(2) === 0);
                    const filled = is_left ? undefined : fill(member.schema, initial(member.schema, schema, true, depth + 1), depth + 1);
                    group = withMember(group, member.name, filled);
                }
                return group;
            }
            default: return undefined;
        }
    }
    const value = fill(schema, initial(schema, schema, true), 0);
    return { kinds: [...kinds], value: field.jsonText(value), isUnfinished: field.isUnfinished(value), mistakes: check.mistakesOf(schema, value) };
}
