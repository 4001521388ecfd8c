import { assert, constantFrom, dictionary, oneof, property, string } from 'fast-check';
import { expect, test } from 'vitest';
import { loadEnvironment } from './load-environment.ts';
import { variables } from './table/table.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

const names = variables(DESTINATIONS).flatMap(([name, { aliases = [] }]) => [name, ...aliases]);
const FORM = /^[A-Z_]+: [^"]+(".*"[^"]*)?: ".*"; .+$/s;

/** Texts that are nearly right, and texts that are anything. */
const texts = oneof(
  constantFrom('none', 'true', '60s', '1h', 'stripe', 'webhook,noop', 'a=b', 'a:b:c', ':8080', '7'),
  constantFrom(
    'a\u0085b',
    'a:b:\u009b',
    'https://u:p@x',
    'http://[::1]:1',
    'a,b',
    'a/b',
    'key=%s',
    '"{{tenant}}"',
    '-',
    '%',
  ),
  string({ unit: 'binary', maxLength: 40 }),
  string({ maxLength: 40 }),
);

test('some environment makes the loader throw, or says something that nobody can act on', () => {
  assert(
    property(dictionary(constantFrom(...names), texts, { maxKeys: 12 }), (environment) => {
      const loaded = loadEnvironment(environment, DESTINATIONS);
      const problems = loaded.kind === 'invalid' ? loaded.problems : [];
      expect(loaded.kind === 'loaded' || problems.length > 0).toBe(true);
      for (const problem of problems) {
        expect(problem).toMatch(FORM);
        expect(problem).not.toMatch(/\p{Cc}/u);
      }
    }),
    { numRuns: 400 },
  );
});
