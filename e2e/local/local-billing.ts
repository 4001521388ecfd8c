import { stablePort } from '../control-plane/ports.ts';
import { openRequestJournal } from '../fakes/journal.ts';
import { startFakeLago } from '../fakes/lago/lago.ts';
import { type Receiver, startReceiver } from '../receiver/receiver.ts';
import type { LocalLago } from './custom-resources.ts';
import { setUpPlan, standardPrices } from './local-plan.ts';
import type { RunFiles } from './run-directory.ts';

/** Known to everybody who reads this; it guards nothing but a loopback address. */
export const LOCAL_SECRET = 'local-development-only';

export interface LocalBillingOptions {
  readonly files: Pick<RunFiles, 'received' | 'receiverPort' | 'lago' | 'lagoPort'>;
  readonly progress: (line: string) => void;
}

/**
 * The billing systems of a local run, at the same ports every time; the prices of the simulated tenants are in force at Lago.
 * Each is added to what has been `started`.
 */
export async function startLocalBilling(
  { files, progress }: LocalBillingOptions,
  started: AsyncDisposableStack,
): Promise<{ readonly receiver: Receiver; readonly lago: LocalLago }> {
  const receiver = await startReceiver({
    file: files.received,
    secret: LOCAL_SECRET,
    port: await stablePort(files.receiverPort),
    log: (line) => progress(`receiver: ${line}`),
  });
  started.defer(() => receiver.stop());
  const lago = await startFakeLago({
    apiKey: LOCAL_SECRET,
    port: await stablePort(files.lagoPort),
    journal: openRequestJournal(files.lago),
    keepsRequests: false,
  });
  started.defer(() => lago.close());
  const { book } = await standardPrices();
  const access = { url: lago.url, apiKey: LOCAL_SECRET };
  progress(`setting the prices of plan ${book.name} at the stand-in for Lago`);
  await setUpPlan(access, book, new Date().toISOString().slice(0, 10));
  return { receiver, lago: { ...access, currency: book.currency } };
}
