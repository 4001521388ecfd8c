import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { schemaOf } from './schema-name.ts';

test('a plain CLUSTER_NAME gives a schema that a person recognises', () => {
  expect(schemaOf('berlin')).toBe('meterfeed_berlin');
  expect(schemaOf('prod-eu-1')).toBe('meterfeed_prod_eu_1');
});

test.each([
  'hub',
  'v1',
  'a_b',
  'a--b',
  'Berlin',
  '',
  '-',
  'x'.repeat(51),
  'ü',
  'x"; drop schema public; --',
])('the CLUSTER_NAME "%s" gets a schema of its own all the same', (source) => {
  expect(schemaOf(source)).toMatch(/^meterfeed_[a-z0-9_]{0,24}__[0-9a-f]{24}$/);
});

test('two names never share a schema, and no schema is longer than PostgreSQL allows', () => {
  const name = fc.oneof(
    fc.string({ unit: fc.constantFrom('a', '-', '_', '0', 'A'), maxLength: 6 }),
    fc.string({ unit: 'binary', maxLength: 256 }),
  );
  const seen = new Map<string, string>();
  fc.assert(
    fc.property(name, (source) => {
      const schema = schemaOf(source);
      expect(schema).toMatch(/^meterfeed_[a-z0-9_]{1,53}$/);
      expect(seen.get(schema) ?? source).toBe(source);
      seen.set(schema, source);
    }),
    { numRuns: 3_000 },
  );
});
