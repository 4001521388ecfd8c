import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createSettingsStore } from '../settings/settings-store.ts';
import { translatePolicy } from '../controllers/policy-settings.ts';
import type { MeteringPolicySpec } from '../settings/custom-resources.generated.ts';
import { createLogger } from '../telemetry/create-logger.ts';
import { settingsOf } from '../metering/windows/testing/harness.ts';
import { followLogLevel } from './process.ts';

test('a trouble cannot be looked into without a restart, which makes it go away', () => {
  const environment = settingsOf({ LOG_LEVEL: 'warn' });
  const store = createSettingsStore(environment);
  const output = new PassThrough();
  const logger = createLogger({ level: environment.log.level, format: 'text', output });
  followLogLevel(store, logger);
  const written = (): readonly string[] => {
    logger.debug('a detail');
    logger.info('a fact');
    logger.warn('a warning');
    const lines = String(output.read() ?? '')
      .split('\n')
      .filter((line) => line !== '');
    return lines.map((line) => line.replace(/^\S+ \w+ +/, ''));
  };
  const apply = (spec: MeteringPolicySpec): void => {
    const translation = translatePolicy(spec, environment.metering);
    if (translation.kind !== 'settings') throw new Error('refused');
    store.setPolicy(translation.settings);
  };

  expect(written()).toStrictEqual(['a warning']);
  apply({ logLevel: 'debug' });
  expect(written()).toStrictEqual([
    '[controller] log level: debug',
    'a detail',
    'a fact',
    'a warning',
  ]);
  apply({ logLevel: 'error' });
  expect(written()).toStrictEqual(['[controller] log level: error']);
  apply({});
  expect(written()).toStrictEqual(['[controller] log level: warn', 'a warning']);
});
