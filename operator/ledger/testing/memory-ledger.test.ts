import { ledgerConformance } from './conformance.ts';
import { createMemoryLedger } from './memory-ledger.ts';

ledgerConformance('the in-memory ledger', async () => createMemoryLedger());
