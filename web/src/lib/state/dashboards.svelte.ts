// The list of dashboards, and the one that is shown, with its changes that were not saved yet. They outlive a change of
// the view.

import { ApiError, isAbort } from '../api/call';
import { idFor, type Dashboard } from '../chart/dashboards';
import { dashboardOf, dashboards, deleteDashboard, saveDashboard, type DashboardEntry } from '../api/dashboards';
import { toApiError } from './lines.svelte';

class Dashboards {
  /** Null until the server has answered. */
  list = $state.raw<DashboardEntry[] | null>(null);
  /** The server keeps no dashboards: it is older than this page. */
  isAbsent = $state(false);
  error = $state.raw<ApiError | null>(null);
  /** The dashboard that is shown, as it is edited. */
  shown = $state.raw<Dashboard | null>(null);
  isChanged = $state(false);
  isSaving = $state(false);
  /** Somebody else has saved the dashboard meanwhile. */
  isOutdated = $state(false);

  async load(signal?: AbortSignal): Promise<void> {
    try {
      const list = await dashboards(signal ? { signal } : {});
      this.list = list.filter(({ id }) => !id.startsWith('_')).sort((a, b) => a.title.localeCompare(b.title));
      this.error = null;
      this.isAbsent = false;
    } catch (error) {
      if (isAbort(error)) return;
      this.error = toApiError(error);
      this.isAbsent = this.error.status === 404;
    }
  }

  /** The dashboard with changes that were not saved, or null if there are none. */
  draftOf(id: string): Dashboard | null {
    return this.isChanged && this.shown?.id === id ? this.shown : null;
  }

  /** Shows a dashboard; one with changes that were not saved stays as it is. */
  async open(id: string, signal?: AbortSignal): Promise<void> {
    if (this.draftOf(id)) return;
    this.error = null;
    try {
      const found = await dashboardOf(id, signal ? { signal } : {});
      // One that has just been made is shown before the server answers, and may be changed by then.
      if (!this.draftOf(id)) this.show(found);
    } catch (error) {
      if (isAbort(error)) return;
      this.shown = null;
      this.error = toApiError(error);
    }
  }

  show(dashboard: Dashboard | null): void {
    this.shown = dashboard;
    this.isChanged = false;
    this.isOutdated = false;
  }

  edit(next: Dashboard): void {
    if (next === this.shown) return;
    this.shown = next;
    this.isChanged = true;
  }

  /**
   * Saves a dashboard; a new one gets an id from its title. Changes that are made meanwhile stay, as changes of what was
   * saved. Null if saving failed, with the reason in `error`.
   */
  async save(dashboard: Dashboard): Promise<Dashboard | null> {
    const isShown = this.shown === dashboard;
    this.isSaving = true;
    this.error = null;
    try {
      const id = dashboard.id || idFor(dashboard.title, (this.list ?? []).map((one) => one.id));
      const saved = await saveDashboard({ ...dashboard, id });
      if (this.shown === dashboard) this.show(saved);
      else if (this.shown?.id === saved.id) {
        if (!this.isChanged) this.show(saved);
        // Changes of another version keep their own, so that saving them does not overwrite this one.
        else if (isShown) this.shown = { ...this.shown, version: saved.version };
      }
      await this.load();
      return saved;
    } catch (error) {
      this.error = toApiError(error);
      this.isOutdated = this.error.status === 409;
      return null;
    } finally {
      this.isSaving = false;
    }
  }

  async remove(id: string): Promise<boolean> {
    try {
      await deleteDashboard(id);
      if (this.shown?.id === id) this.show(null);
      await this.load();
      return true;
    } catch (error) {
      this.error = toApiError(error);
      return false;
    }
  }
}

export const dashboardsState = new Dashboards();
