import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fleetFiles } from '../e2e/fleet/fleet-directory.ts';
import { endFleet } from '../e2e/fleet/local-fleet.ts';
import { endLeftovers } from '../e2e/control-plane/control-plane.ts';
import { prometheusPid } from '../e2e/local/local-telemetry.ts';
import { RUN_DIRECTORY, runFiles } from '../e2e/local/run-directory.ts';
import { endRemembered } from '../e2e/processes/pid-file.ts';

/** `make clean`: ends every running process of `.run` and deletes cluster and ledger. */
const directories = [RUN_DIRECTORY, join(RUN_DIRECTORY, 'against-cluster')];
for (const files of directories.map((directory) => runFiles(directory))) {
  // An orderly stop of `make run` also ends its children.
  await endRemembered(files.runPid, 30_000);
  await endRemembered(files.operatorPid, 20_000);
  await endRemembered(prometheusPid(files));
  await endLeftovers(files.directory);
  await endLeftovers(files.tenantPlane);
}
await endRemembered(fleetFiles().runPid, 60_000);
await endFleet(fleetFiles());
await rm(RUN_DIRECTORY, { recursive: true, force: true });
