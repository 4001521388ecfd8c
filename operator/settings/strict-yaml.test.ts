import { expect, test } from 'vitest';
import { readStrictYaml, type YamlNode } from './strict-yaml.ts';

const MOST = 64 * 1024;

function plain(node: YamlNode): unknown {
  switch (node.kind) {
    case 'text':
      return node.text;
    case 'list':
      return node.items.map(plain);
    default:
      return Object.fromEntries([...node.entries].map(([key, value]) => [key, plain(value)]));
  }
}

function read(text: string): unknown {
  const outcome = readStrictYaml(text, MOST);
  return outcome.kind === 'document' ? plain(outcome.root) : outcome.problems;
}

test('a token of digits is billed as a number, and loses its leading zeros', () => {
  expect(read('token: 00123\nempty:\nyes: true\nlist: [1, "2"]')).toEqual({
    token: '00123',
    empty: '',
    yes: 'true',
    list: ['1', '2'],
  });
});

test('JSON is YAML', () => {
  expect(read('{"a": [{"b": "c"}], "d": ""}')).toEqual({ a: [{ b: 'c' }], d: '' });
});

test.each([
  [
    'a: &x 1\nb: *x',
    ['line 1: an anchor; write values out', 'line 2: an alias; write the value out'],
  ],
  ['a: 1\nb: !!js/function "x"', ['line 2: not valid YAML: TAG_RESOLVE_FAILED']],
  ['a: !!str x\n', { a: 'x' }],
  ['<<: {a: 1}', ['line 1: a merge key; write the fields out']],
  ['a: 1\nb: 2\na: 3', ['line 3: a duplicate field']],
  ['? [a]\n: b', ['line 1: a key that is not text']],
  ['a: 1\n---\nb: 2', ['line 2: not valid YAML: MULTIPLE_DOCS']],
  ['a: "secret\nb: x', ['line 2: not valid YAML: MISSING_CHAR']],
  ['__proto__: {x: 1}', { ['__proto__']: { x: '1' } }],
])('%j is read as it is written, or refused without being quoted', (text, expected) => {
  expect(JSON.stringify(read(text))).toBe(JSON.stringify(expected));
});

test.each([
  ['brackets', '['.repeat(60_000)],
  ['brackets of a map', '{a: '.repeat(15_000)],
  ['lists in lists', '- '.repeat(30_000)],
  ['explicit keys', '? '.repeat(30_000)],
  ['explicit keys by line', '?\n'.repeat(30_000)],
  ['explicit keys in a flow', `{${'? '.repeat(30_000)}}`],
  ['indentation', Array.from({ length: 300 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')],
  ['aliases of aliases', `a: &a [x]\n${'b: [*a,*a,*a,*a]\n'.repeat(2_000)}`],
  ['keys', Array.from({ length: 9_000 }, (_, key) => `k${key}:`).join('\n')],
  ['text', 'x'.repeat(MOST + 1)],
])('a file of %s stops the operator for minutes', (_, text) => {
  const began = performance.now();
  readStrictYaml(text, MOST);
  expect(performance.now() - began).toBeLessThan(1_500);
});

test('what is too large or too deep is reported', () => {
  expect(read('x'.repeat(MOST + 1))).toEqual(['too large: 65537 bytes; at most 65536']);
  expect(read('a: 1\nb: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[')).toEqual([
    'line 2: nested too deeply',
  ]);
});
