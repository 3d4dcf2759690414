// Dashboards in memory, as the server keeps them on disk.

interface Document {
  id: string;
  title: string;
  version: number;
  panels: unknown[];
}

export class WrongDashboard extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export class MockDashboards {
  #documents = new Map<string, Document>();

  list(): unknown {
    return { dashboards: [...this.#documents.values()].map(({ id, title, version }) => ({ id, title, version })) };
  }

  get(id: string): Document {
    const found = this.#documents.get(id);
    if (!found) throw new WrongDashboard(404, `there is no dashboard ${id}`);
    return found;
  }

  put(id: string, body: string): Document {
    const sent = JSON.parse(body) as Document;
    const now = this.#documents.get(id)?.version ?? 0;
    if (sent.version !== now) throw new WrongDashboard(409, `the dashboard has version ${now}, and version ${sent.version} was changed`);
    const saved = { ...sent, id, version: now + 1 };
    this.#documents.set(id, saved);
    return saved;
  }

  delete(id: string): void {
    this.get(id);
    this.#documents.delete(id);
  }
}
