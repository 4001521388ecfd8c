import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { type Environment, type LoadedEnvironment, loadEnvironment } from './load-environment.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

describe('a credential leaks', () => {
  const canaries: Environment = {
    ADAPTERS: 'stripe,metronome,lago,webhook,kafka',
    STRIPE_API_KEY: 'canary-1',
    METRONOME_API_TOKEN: 'canary-2',
    METRONOME_STRIPE_LINK: 'true',
    LAGO_API_KEY: 'canary-3',
    WEBHOOK_URL: 'https://hooks.example.com/in?token=canary-4',
    WEBHOOK_SECRET: 'canary-5,canary-6',
    WEBHOOK_HEADERS: 'Authorization=canary-7',
    KAFKA_BROKERS: 'kafka.example.com:9093',
    KAFKA_TOPIC: 'usage',
    KAFKA_USERNAME: 'meterfeed',
    KAFKA_PASSWORD: 'canary-19',
    PROMETHEUS_URL: 'https://user:canary-8@prom.example.com',
    PROMETHEUS_HEADERS: 'X-Key=canary-9',
    LEDGER_URL: 'postgresql://m:canary-18@db.example.com/ledger',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example.com:4318',
    OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=canary-20',
    API_TOKEN: 'canary-10',
    INGEST_TOKEN: 'canary-11',
    STRIPE_WEBHOOK_SECRET: 'canary-12',
    METRONOME_WEBHOOK_SECRET: 'canary-13',
    LAGO_WEBHOOK_SECRET: 'canary-14',
  };

  function everythingStated(loaded: LoadedEnvironment): string {
    return `${JSON.stringify(loaded)} ${inspect(loaded, { depth: 20, showHidden: true })}`;
  }

  test('into the settings, warnings or the table of effective values', () => {
    const loaded = loadEnvironment(canaries, DESTINATIONS);
    expect(loaded.kind).toBe('loaded');
    // The webhook's own address is no credential to the settings; only what is shown is masked.
    const stated = everythingStated(loaded).replaceAll(
      'https://hooks.example.com/in?token=canary-4',
      '',
    );
    expect(stated).not.toContain('canary');
    const effective = loaded.kind === 'loaded' ? loaded.effective : [];
    expect(effective.length).toBeGreaterThan(Object.keys(canaries).length);
    expect(JSON.stringify(effective)).not.toContain('canary');
  });

  test('into the problem that is reported when it is wrong', () => {
    const damaged: Environment = {
      ...Object.fromEntries(
        Object.entries(canaries).map(([name, text]) => [name, `${text ?? ''}\u0007 ,, #`]),
      ),
      BILLING_A_API_KEY: 'canary-15',
      PROMETHEUS_URL: 'https://user:canary/8?@prom.example.com:99999',
    };
    const loaded = loadEnvironment(damaged, DESTINATIONS);
    expect(loaded.kind === 'invalid' && loaded.problems.length).toBeGreaterThan(10);
    expect(everythingStated(loaded)).not.toContain('canary');
  });

  test('into the warning about a misspelt variable', () => {
    const loaded = loadEnvironment(
      { STRIPE_APIKEY: 'canary-16', LAGO_API_KEYS: 'canary-17' },
      DESTINATIONS,
    );
    expect(loaded.kind === 'loaded' && loaded.warnings).toContain(
      'STRIPE_APIKEY: unknown variable, without effect; did you mean STRIPE_API_KEY?',
    );
    expect(everythingStated(loaded)).not.toContain('canary');
  });
});
