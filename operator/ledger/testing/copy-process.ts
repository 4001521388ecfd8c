/**
 * A process that copies a ledger from a directory into a stream, for tests that kill it. Arguments:
 * directory, port and name of the database, CLUSTER_NAME, REGION. Prints one line for each batch
 * and one at the end.
 */
import { writeSync } from 'node:fs';
import { copyToDatabase } from '../tool/copy-to-database.ts';
import { TEST_USER } from './postgres-server.ts';

const [directory = '', port = '', name = '', source = '', region = ''] = process.argv.slice(2);
const tls = { mode: 'disable' } as const;
const database = { host: '127.0.0.1', port: Number(port), name, user: TEST_USER, tls };
const options = { database, durability: 'storage', source, region, startsOver: false } as const;
const report = await copyToDatabase(directory, options, ({ copied }) => {
  writeSync(1, `${copied}\n`);
});
writeSync(1, `${report.kind}\n`);
