import { beforeAll } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { ledgerConformance } from '../testing/conformance.ts';
import { anchorPromises } from '../testing/conformance/anchors.ts';
import { restartPromises } from '../testing/conformance/restart.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';

const used = usePostgres();
let database: LedgerDatabase;
let streams = 0;

beforeAll(async () => {
  database = await used.server().createDatabase();
});

/** Each ledger has its own stream in one database. */
function nextStream(): { readonly source: string; readonly region: string } {
  streams += 1;
  return { source: `cluster-${streams}`, region: `region-${streams}` };
}

ledgerConformance('the PostgreSQL ledger', () => openTestStream(database, nextStream()));

async function place() {
  const stream = nextStream();
  return () => openTestStream(database, stream);
}

restartPromises(place);
anchorPromises(place);
