import { PassThrough } from 'node:stream';
import { Counter } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { Secret } from '../model/secret.ts';
import { createLogger } from './create-logger.ts';
import type { Logger } from './logger.ts';
import { createLabelLimit, createRegistry } from './registry.ts';
import { Scrubber } from './scrubber.ts';

const CANARY = 'canary"secret/4f1d\\éé+value';

function capture(format: 'json' | 'text', level: 'debug' | 'info' = 'debug') {
  const output = new PassThrough();
  const scrubber = new Scrubber();
  scrubber.learn({
    http: {
      apiTokens: [new Secret(CANARY)],
      headers: new Map([['x', new Secret('header-canary')]]),
    },
  });
  const logger = createLogger({ level, format, output, scrubber });
  return {
    logger,
    lines: () =>
      String(output.read() ?? '')
        .split('\n')
        .slice(0, -1),
  };
}

function logEverywhere(logger: Logger): void {
  const cause = new Error(`refused for ${CANARY}`);
  const error = new TypeError(`request with header-canary failed`, { cause });
  logger.error(`[lago] 401 for ${CANARY}`, {
    error,
    token: new Secret(CANARY),
    url: `https://user:${encodeURIComponent(CANARY)}@example.com/`,
    basic: Buffer.from(CANARY).toString('base64'),
    json: JSON.stringify({ key: CANARY }),
    nested: { deep: { list: [CANARY] }, map: new Map([['k', CANARY]]) },
    [CANARY]: 1,
  });
}

describe('a secret never reaches the log', () => {
  test.each(['json', 'text'] as const)('in %s', (format) => {
    const { logger, lines } = capture(format);
    logEverywhere(logger);
    const text = lines().join('\n');
    expect(text).toContain('***');
    expect(text).not.toMatch(/canary|4f1d/);
    expect(text).not.toContain(Buffer.from(CANARY).toString('base64').slice(0, 12));
  });

  test('nor do credentials that nobody has loaded, if they can be recognised', () => {
    const { logger, lines } = capture('text');
    logger.warn(
      'GET http://admin:hunter22@prometheus:9090/ sent Authorization: Bearer abcdef123456',
    );
    expect(lines()[0]).toContain('GET http://***@prometheus:9090/ sent Authorization: Bearer ***');
  });

  test('and a rotated one is masked from the moment it is learnt', () => {
    const output = new PassThrough();
    const scrubber = new Scrubber();
    const logger = createLogger({ level: 'info', format: 'text', output, scrubber });
    scrubber.learn(new Secret('second-token'));
    logger.info('using second-token');
    expect(String(output.read())).toContain('using ***');
  });
});

describe('a log line', () => {
  test.each(['json', 'text'] as const)(
    'cannot be forged or steered from inside, in %s',
    (format) => {
      const { logger, lines } = capture(format);
      logger.info('[discovery] found evil\r\n{"level":"error"}\u001b[2J\u2028x', {
        name: 'a\nb\u001b',
      });
      const written = lines();
      expect(written).toHaveLength(1);
      expect(written[0]).not.toMatch(/[\p{Cc}\u2028]/u);
    },
  );

  test('is JSON whatever the fields are', () => {
    const { logger, lines } = capture('json');
    const loop: Record<string, unknown> = {};
    loop['self'] = loop;
    const fields = { loop, big: 10n, nan: Number.NaN, long: 'x'.repeat(100_000), level: 'fake' };
    logger.info('[controller] window', { ...fields, fn: () => 1, none: undefined });
    const entry: unknown = JSON.parse(lines()[0] ?? '');
    expect(entry).toMatchObject({ level: 'info', message: '[controller] window', big: '10' });
    expect(entry).toHaveProperty('time');
    expect(JSON.stringify(entry).length).toBeLessThan(10_000);
  });

  test('is for people in text format', () => {
    const { logger, lines } = capture('text');
    logger.info('[discovery] found 3 tenant clusters', {
      namespace: 'a b',
      project: undefined,
      count: 3,
    });
    expect(lines()[0]).toMatch(
      /^\d{4}-\d\d-\d\dT[\d:.]+Z INFO {2}\[discovery\] found 3 tenant clusters namespace="a b" count=3$/,
    );
  });

  test('below the level is not written', () => {
    const { logger, lines } = capture('json', 'info');
    logger.debug('noise');
    expect(lines()).toHaveLength(0);
  });
});

describe('metrics', () => {
  test('say which build is running', async () => {
    const text = await createRegistry({ version: '1.2.3' }).metrics();
    expect(text).toContain(
      `meterfeed_build_info{version="1.2.3",node_version="${process.versions.node}"} 1`,
    );
    expect(text).toContain('process_resident_memory_bytes');
  });

  test('cannot be split by a hostile name, nor grow without bound', async () => {
    const registry = createRegistry({ version: '1.2.3' });
    const counter = new Counter({
      name: 'meterfeed_test_total',
      help: 'test',
      labelNames: ['client'],
      registers: [registry],
    });
    const limit = createLabelLimit(3);
    for (const name of ['a"b\n# EOF', 'x'.repeat(64_000), 'c', 'd', 'e', 'c']) {
      counter.inc({ client: limit(name) });
    }
    const text = await registry.metrics();
    const series = text.split('\n').filter((line) => line.startsWith('meterfeed_test_total'));
    expect(series).toHaveLength(4);
    expect(series).toContain('meterfeed_test_total{client="a\\"b # EOF"} 1');
    expect(series).toContain('meterfeed_test_total{client="other"} 2');
    expect(series).toContain('meterfeed_test_total{client="c"} 2');
    expect(Math.max(...series.map((line) => line.length))).toBeLessThan(200);
  });
});
