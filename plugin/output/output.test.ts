import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { COMMANDS } from '../commands/commands.ts';
import { exactJson, exactYaml, parseExact } from '../exact-json.ts';
import { helpOf, overview } from '../help.ts';
import { run } from '../run.ts';
import { type Answer, print } from './print.ts';
import { characters } from './characters.ts';
import { sparkline } from './sparkline.ts';
import { csvLines, type Table, tableLines } from './table.ts';
import { duration, rounded, time } from './words.ts';

const COLUMNS = [
  { name: 'TENANT', cut: true },
  { name: 'METRIC', cut: true },
  { name: 'QUANTITY', align: 'right' },
  { name: 'LAST 12 HOURS', drawn: true },
] as const;

function tableOf(rows: readonly (readonly string[])[]): Table {
  return { columns: COLUMNS, rows, empty: 'nothing' };
}

describe('a table', () => {
  test('is broken over two lines of a terminal, or moves its cursor', () => {
    const cell = fc.string({ unit: 'binary', maxLength: 120 });
    const rows = fc.array(fc.tuple(cell, cell, cell, cell), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(rows, fc.integer({ min: 40, max: 200 }), (given, width) => {
        const lines = tableLines(tableOf(given), width);
        expect(lines).toHaveLength(given.length + 1);
        for (const line of lines) {
          expect(characters(line).length).toBeLessThanOrEqual(width);
          // oxlint-disable-next-line no-control-regex
          expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
        }
      }),
    );
  });

  test('cuts a number, which would then be another one', () => {
    const row = ['t'.repeat(100), 'm'.repeat(100), '123456789.123456789', '▁'.repeat(12)];
    const [, line = ''] = tableLines(tableOf([row]), 80);
    expect(line).toContain(' 123456789.123456789 ');
    expect(line).toMatch(/t…/);
  });

  test('cuts something in the wide format', () => {
    const row = ['t'.repeat(100), 'm'.repeat(100), '1', ''];
    expect(tableLines(tableOf([row]), undefined)[1]).toContain(
      `${'t'.repeat(100)}  ${'m'.repeat(100)}`,
    );
  });

  test('has no words where it has no rows', () => {
    expect(tableLines(tableOf([]), 80)).toStrictEqual(['nothing']);
  });

  test('brings what is only drawn into CSV, or a formula', () => {
    const lines = csvLines(tableOf([['=cmd()', 'a,"b"', '1.5', '▁▂']]));
    expect(lines).toStrictEqual(['tenant,metric,quantity\r\n', `'=cmd(),"a,""b""",1.5\r\n`]);
  });
});

describe('a number', () => {
  const text = '{"quantity":123456789012.123456789,"rows":[{"events":3,"odd":"1e5"}],"none":null}';

  test.each(['json', 'yaml'] as const)('loses digits as %s', (format) => {
    const answer: Answer = { kind: 'answer', document: parseExact(text), table: tableOf([]) };
    const printed = print(answer, format, 80);
    expect(printed).toContain('123456789012.123456789');
    expect(parse(printed)).toStrictEqual(JSON.parse(text));
  });

  test('changes any JSON value on its way', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const same: unknown = JSON.parse(JSON.stringify(value));
        const document = parseExact(JSON.stringify(value));
        expect(JSON.parse(exactJson(document))).toStrictEqual(same);
        expect(parse(exactYaml(document))).toStrictEqual(same);
      }),
    );
  });
});

describe('a hostile name', () => {
  const name = 'ac\u001b[31mme\u009b2K\u0000\u007f';
  // oxlint-disable-next-line no-control-regex
  const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;
  const answer: Answer = {
    kind: 'answer',
    document: { tenant: name },
    facts: [name],
    table: tableOf([[name, '', '', '']]),
    notes: [name],
  };

  test('colours a table or leaves half of a sequence in it', () => {
    expect(print(answer, 'table', 80)).not.toMatch(controls);
    expect(print(answer, 'table', 80)).not.toContain('[31m');
    expect(tableLines(tableOf([[name, '', '', '']]), 80)[1]).toMatch(/^acme/);
  });

  test.each(['json', 'yaml'] as const)('is obeyed by the terminal, or changed, as %s', (format) => {
    const printed = print(answer, format, 80);
    expect(printed).not.toMatch(controls);
    expect(parse(printed)).toStrictEqual({ tenant: name });
  });

  test('reaches the terminal through an error', async () => {
    const written: string[] = [];
    const write = (text: string): void => void written.push(text);
    const exit = await run([name], {
      environment: {},
      columns: 80,
      now: () => 0,
      out: write,
      err: write,
      version: 'test',
    });
    expect(exit).toBe(2);
    expect(written.join('')).toBe(
      `no such command: "acme": use one of ${COMMANDS.map((each) => each.name).join(', ')}\n`,
    );
  });
});

test('a sparkline shows nothing as a little, or a little as nothing', () => {
  expect(sparkline([0, 0.001, 1, 4, 8])).toBe('·▁▂▅█');
  expect(sparkline([0, 0])).toBe('··');
});

test.each([
  [0, '0s'],
  [0.4, '< 1s'],
  [59.9, '59s'],
  [3600, '1h'],
  [93_784, '1d 2h'],
])('%d seconds are shown wrong', (seconds, words) => {
  expect(duration(seconds)).toBe(words);
});

test('times and quantities are shown wrong', () => {
  expect(time('2026-11-21T09:01:00Z')).toBe('2026-11-21 09:01');
  expect(time('2026-11-21T09:01:03.250Z')).toBe('2026-11-21 09:01:03');
  expect(rounded('0.000000001')).toBe('< 0.001');
  expect(rounded('12.3456')).toBe('12.346');
});

test.each([overview(), ...COMMANDS.map(helpOf)])('help is broken over two lines: %#', (help) => {
  expect(help.split('\n').filter((line) => line.length > 80)).toStrictEqual([]);
});
