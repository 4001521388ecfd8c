/**
 * A process that opens a stream and copies it from the tables of an earlier release, for tests that
 * kill it. Arguments: port and name of the database, CLUSTER_NAME, REGION. Prints a line for each
 * step of the copy, and `opened`.
 */
import { writeSync } from 'node:fs';
import { openPostgresLedger } from '../postgres/open-postgres-ledger.ts';
import { silentLogger } from './level-ledger.ts';
import { postgresOptions } from './postgres-options.ts';
import { TEST_USER } from './postgres-server.ts';

const [port, name = '', source = '', region = ''] = process.argv.slice(2);
const tls = { mode: 'disable' } as const;
const database = { host: '127.0.0.1', port: Number(port), name, user: TEST_USER, tls };
const logger = { ...silentLogger, info: (line: string) => void writeSync(1, `${line}\n`) };
const opened = await openPostgresLedger(postgresOptions(database, { source, region, logger }));
writeSync(1, opened.kind === 'failed' ? `${opened.message}\n` : 'opened\n');
if (opened.kind === 'opened') await opened.ledger.close();
