import { loadHeldUsage } from '../../billing/held-usage/testing/held-usage.ts';
import { Intake } from '../../intake/intake.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { BUILT_IN_METRICS } from '../../model/catalog.ts';
import { decimalFromNanos } from '../../model/decimal.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import {
  startTestServer,
  testClock,
  type TestServer,
  type TestServerOptions,
} from './test-server.ts';

export interface GatewayServer extends TestServer {
  readonly intake: Intake;
}

export interface GatewayServerOptions extends TestServerOptions {
  /** False stops it before the intake has read its records. */
  readonly isLoaded?: boolean;
}

/** A server with a real intake. */
export async function startGatewayServer({
  isLoaded = true,
  ...options
}: GatewayServerOptions = {}): Promise<GatewayServer> {
  const ledger = options.ledger ?? createMemoryLedger();
  const intake = new Intake({
    ledger,
    held: await loadHeldUsage(ledger),
    clock: testClock,
    logger: createMemoryLogger(),
    region: 'eu-central-1',
    unitOf: (code) => BUILT_IN_METRICS.find((metric) => metric.code === code)?.unit,
    windowMs: () => 3_600_000,
    lateForMs: () => 7_200_000,
  });
  if (isLoaded) await intake.load();
  const server = await startTestServer({
    ...options,
    ledger,
    views: { intake, ...options.views },
  });
  return Object.assign(server, { intake });
}

/** The tokens of a tenant that no window has closed yet, by their type. */
export function tokensOf(
  { intake }: Pick<GatewayServer, 'intake'>,
  tenant: string,
): Readonly<Record<string, string>> {
  const sums = intake.openSums(tenant).filter(({ metric }) => metric === 'tenant_inference_tokens');
  return Object.fromEntries(
    sums.map(({ dimensions, nanos }) => [dimensions['token_type'] ?? '', decimalFromNanos(nanos)]),
  );
}
