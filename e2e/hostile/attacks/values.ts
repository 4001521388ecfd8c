import type { Random } from '../../faults/random.ts';

/**
 * Values that break what reads them. Sizes and texts that a value of JavaScript cannot hold, or JSON
 * cannot say, stand for themselves as marks, which {@link expandMarks} replaces in the text.
 */
export function hostileValue(random: Random): unknown {
  return random.pick(VALUES)(random);
}

/** A text, for where only texts are taken. */
export function hostileText(random: Random): string {
  return random.pick([
    (): string => random.pick(NAMES),
    () => random.pick(QUANTITIES),
    () => random.pick(TIMES),
    () => random.pick(UNICODE),
    () => 'x'.repeat(random.pick([64, 254, 1_025, 40_000])),
  ])();
}

/** Texts that stand for another list of names where names are joined without care. */
export const NAMES: readonly string[] = [
  'nvidia.com/gpu=8,rdma/ib',
  'nvidia.com/gpu=8',
  'cpu=1,memory=1',
  'a\u0000b',
  'gpu.nvidia.com\u0000pool\u0000gpu-0',
  'a/b/c',
  '/',
  'a|b',
  'a;b',
  'a:b',
  '1:a',
  '2:ab1:c',
  '["a","b"]',
  '"a","b"',
  'a","b":"c',
  'tenant-honest-a-honest-a',
  'honest-nodes-1',
  'host-gpu',
  'uid-pods-honest-a-gpu',
  'default/work',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  '*',
  '%s',
  '{{tenant}}',
  '${jndi:ldap://x}',
  "'; DROP TABLE usage; --",
  '=HYPERLINK("http://x")',
  '../../../../etc/passwd',
  '<script>alert(1)</script>',
  '',
  ' ',
];

const QUANTITIES: readonly string[] = [
  '1e9Ei',
  '9'.repeat(400),
  '-5',
  '-0',
  '0x10',
  '1_000',
  '1e999999999',
  '1E',
  '.5',
  '5.',
  '1n',
  '1ki',
  '1Kii',
  '1e-30',
  '0.0000000000000000000000000001',
  '16777216Ti',
  '9223372036854775807',
  '9223372036854775808',
  'NaN',
  'Infinity',
  '١٢٣',
  '1 Gi',
  '\t1',
];

/** Times that are none, far away, or that a clock cannot hold. */
export const TIMES: readonly string[] = [
  '0000-01-01T00:00:00Z',
  '0001-01-01T00:00:00Z',
  '1969-12-31T23:59:59Z',
  '9999-12-31T23:59:59Z',
  '+275760-09-13T00:00:00Z',
  '+275760-09-13T00:00:00.001Z',
  '-271821-04-20T00:00:00Z',
  '2026-13-45T99:99:99Z',
  '2026-02-30T00:00:00Z',
  '2026-11-22T00:00:00',
  '2026-11-22T00:00:00+99:99',
  '2026-11-22',
  '2099-01-01T00:00:00Z',
  '1e400',
  'now',
  '-9007199254740991',
];

const UNICODE: readonly string[] = [
  '\ud800',
  '\udc00\ud800',
  '\u202eevil',
  '\u0000',
  'a\nb\r\nSet-Cookie: x',
  '\u001b[31mred\u001b[2J',
  '\u2028\u2029',
  '\ufeff',
  '😀'.repeat(60),
  'é'.normalize('NFD').repeat(100),
  'ſ',
  '\u0001\u007f\u0080',
];

const mark = (kind: string, size: number): string => `@@${kind}:${size}@@`;

const VALUES: readonly ((random: Random) => unknown)[] = [
  (random) => mark('deep', random.pick([40, 63, 64, 65, 100, 1_000, 5_000, 20_000])),
  (random) => mark('deeplist', random.pick([40, 65, 1_000, 20_000, 100_000])),
  (random) => mark('list', random.pick([1_000, 20_000, 120_000, 400_000])),
  (random) => mark('texts', random.pick([1_000, 20_000, 100_000])),
  (random) => mark('keys', random.pick([300, 5_000, 50_000])),
  (random) => mark('text', random.pick([64, 300, 5_000, 300_000, 1_500_000])),
  (random) => mark('number', random.pick([0, 1, 2, 3, 4, 5, 6, 7, 8])),
  (random) => mark('proto', random.between(0, 2)),
  () => null,
  () => true,
  () => [],
  () => ({}),
  () => '',
  () => [[[]]],
  () => [null, undefined, 0, '', {}],
  (random) => hostileText(random),
  (random) => hostileText(random),
  (random) => random.pick(QUANTITIES),
  (random) => random.pick(TIMES),
  (random) => ({ [random.pick(NAMES)]: random.pick(QUANTITIES) }),
  (random) => Object.fromEntries(NAMES.map((name) => [name, random.pick(QUANTITIES)])),
];

const NUMBERS: readonly string[] = [
  '1e308',
  '-1e308',
  '1e999',
  '-0',
  '9007199254740993',
  '-9007199254740991',
  '4.9e-324',
  '0.1e-400',
  '9'.repeat(5_000),
];

const PROTOTYPES: readonly string[] = [
  '{"__proto__":{"polluted":true,"length":1}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"a":1,"a":2,"__proto__":null,"hasOwnProperty":1,"toString":"x","valueOf":0}',
];

const EXPANSIONS: Readonly<Record<string, (size: number) => string>> = {
  deep: (size) => `${'{"a":'.repeat(size)}1${'}'.repeat(size)}`,
  deeplist: (size) => `${'['.repeat(size)}${']'.repeat(size)}`,
  list: (size) => `[${'0,'.repeat(size)}0]`,
  texts: (size) => `[${Array.from({ length: size }, (_, index) => `"t${index}"`).join(',')}]`,
  keys: (size) => `{${Array.from({ length: size }, (_, index) => `"k${index}":"v"`).join(',')}}`,
  text: (size) => `"${'x'.repeat(size)}"`,
  number: (size) => NUMBERS[size] ?? '0',
  proto: (size) => PROTOTYPES[size] ?? '{}',
};

/** Longest text that marks expand to: V8 holds half a billion characters in a string at most. */
const MOST_CHARACTERS = 100_000_000;

/**
 * The JSON text with every mark replaced by what it stands for. Marks that would make it longer
 * than {@link MOST_CHARACTERS} stay as they are.
 */
export function expandMarks(json: string): string {
  let length = json.length;
  return json.replaceAll(/"@@([a-z]+):(\d+)@@"/g, (complete, kind: string, size: string) => {
    const expanded = EXPANSIONS[kind]?.(Number(size)) ?? complete;
    if (length + expanded.length > MOST_CHARACTERS) return complete;
    length += expanded.length;
    return expanded;
  });
}
