import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseOrThrow } from '../parsers/parser.ts';
import { settings } from './table.ts';
import { DESTINATIONS } from '../../destinations/registry.ts';

type Entry = ReturnType<typeof settings>[number];

test('a default is refused by its own parser', () => {
  const defaults = settings(DESTINATIONS).flatMap(([, { parser, default: text }]) =>
    text === undefined ? [] : [{ parser, text }],
  );
  expect(defaults.length).toBeGreaterThan(30);
  for (const { parser, text } of defaults) expect(() => parseOrThrow(parser, text)).not.toThrow();
});

test('one name stands for two variables', () => {
  const names = settings(DESTINATIONS).flatMap(([name, { aliases = [] }]) => [name, ...aliases]);
  expect(names.length).toBe(new Set(names).size);
});

test('a setting names a test that does not exist', () => {
  const files = new Set(settings(DESTINATIONS).map(([, variable]) => variable.test));
  const root = new URL('../../../', import.meta.url);
  expect([...files].filter((file) => !existsSync(new URL(file, root)))).toStrictEqual([]);
});

test('a setting names a test that knows nothing of the variable, or only that it is parsed', () => {
  const root = new URL('../../../', import.meta.url);
  const camelCase = (name: string) =>
    name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  const knows = ([name, { aliases = [], fields = [], test: file }]: Entry): boolean => {
    const source = readFileSync(new URL(file, root), 'utf8');
    const keys = fields.map((field) => field.split('.').at(-1) ?? field);
    const words = new RegExp(`\\b(${[name, ...aliases, camelCase(name), ...keys].join('|')})\\b`);
    return words.test(source) && !file.endsWith('/load-environment.test.ts');
  };
  expect(
    settings(DESTINATIONS)
      .filter((entry) => !knows(entry))
      .map(([name]) => name),
  ).toStrictEqual([]);
});

/**
 * They describe the process and what is mounted into it; everything else is a field of a custom
 * resource as well.
 */
const PROCESS_SETTINGS = [
  // A deprecated name, and one without effect.
  'ADAPTER',
  'SPOT_DISCOUNT_PERCENT',
  // Who this control plane is: part of every event id, and of the marks on objects.
  'REGION',
  'CLUSTER_NAME',
  'LABEL_PREFIX',
  // Files that are mounted into the pod, and the ledger's volume.
  'TENANT_CLUSTERS_FILE',
  'PROMETHEUS_METRICS_FILE',
  'DATA_DIR',
  'ROLE',
  'LEDGER_URL',
  'LEDGER_URL_FILE',
  'REPLICATED',
  'LEDGER_DURABILITY',
  // The HTTP server and the log.
  'LISTEN_ADDR',
  'PROBE_ADDR',
  'API_TOKEN',
  'INGEST_TOKEN',
  'API_TOKEN_FILE',
  'INGEST_TOKEN_FILE',
  'PORTAL_KEYS',
  'PORTAL_KEYS_FILE',
  'LOG_FORMAT',
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_METRIC_EXPORT_INTERVAL',
];

test('a setting of the engine can be given in the environment only', () => {
  const environmentOnly = settings(DESTINATIONS)
    .filter(([, { fields = [] }]) => fields.length === 0)
    .map(([name]) => name);
  expect(environmentOnly.toSorted()).toStrictEqual(PROCESS_SETTINGS.toSorted());
});
